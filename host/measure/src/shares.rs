//! Percents that add up to a hundred.

/// The share of each part in their sum, rounded so that the shares add up to 100: what is left after rounding down goes to
/// those with the largest remainders. All are 0 if the sum is.
pub fn percents(parts: &[u64]) -> Vec<u64> {
    let sum: u128 = parts.iter().map(|part| u128::from(*part)).sum();
    if sum == 0 {
        return vec![0; parts.len()];
    }
    let hundredfold = |at: usize| u128::from(parts[at]) * 100;
    let mut shares: Vec<u64> = (0..parts.len()).map(|at| (hundredfold(at) / sum) as u64).collect();
    let mut by_remainder: Vec<usize> = (0..parts.len()).collect();
    by_remainder.sort_by_key(|at| std::cmp::Reverse(hundredfold(*at) % sum));
    let missing = 100 - shares.iter().sum::<u64>() as usize;
    by_remainder.into_iter().take(missing).for_each(|at| shares[at] += 1);
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_remainders_get_what_is_left() {
        assert_eq!(percents(&[1, 1, 1]), [34, 33, 33]);
        assert_eq!(percents(&[459, 1, 327]), [58, 0, 42]);
        assert_eq!(percents(&[2, 2, 2, 1]), [29, 29, 28, 14]);
        assert_eq!(percents(&[7]), [100]);
        assert_eq!(percents(&[0, 0]), [0, 0]);
        assert!(percents(&[]).is_empty());
    }

    #[test]
    fn they_always_add_up() {
        let mut seed = 1u64;
        for len in 1..200 {
            let mut next = || {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                // Small, large and none, so that remainders meet.
                seed >> (seed >> 58)
            };
            let parts: Vec<u64> = (0..len).map(|_| next()).collect();
            assert_eq!(percents(&parts).iter().sum::<u64>(), 100, "{parts:?}");
        }
    }
}
