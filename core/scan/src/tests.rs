//! Against a naive search of the bytes as they lie in memory, from the manual and not from `encoding.rs`.

use super::*;
use crate::summary::edges;
use proptest::collection::vec;
use proptest::prelude::*;

type Page = [u8; PAGE];

/// XCR0 with x87, SSE and AVX; and with the key register beside.
const WITHOUT: u64 = 0b111;
const WITH: u64 = 0b10_0000_0111;

fn both() -> [Rules; 2] {
    [WITHOUT, WITH].map(|xcr0| Rules::for_xcr0(xcr0).unwrap())
}

/// What three bytes begin.
fn encoding(bytes: [u8; 3], rules: Rules) -> Option<Encoding> {
    match bytes {
        [0x0f, 0x01, 0xef] => Some(Encoding::Wrpkru),
        [0x0f, 0xae, 0x28..=0x2f | 0x68..=0x6f | 0xa8..=0xaf] if rules.forbid(Encoding::Xrstor) => {
            Some(Encoding::Xrstor)
        }
        _ => None,
    }
}

fn naive(bytes: &[u8], rules: Rules) -> Option<(Encoding, usize)> {
    let all = bytes.windows(3).enumerate();
    { all }.find_map(|(at, window)| Some((encoding([window[0], window[1], window[2]], rules)?, at)))
}

fn place(found: Found) -> (Encoding, usize) {
    (found.encoding, found.offset)
}

/// The bytes that matter, and those beside them; the step by eight bytes confuses a byte with its neighbours, if any.
fn byte() -> impl Strategy<Value = u8> {
    let special = [0x0f, 0x01, 0xef, 0xae, 0x2f, 0xa8, 0x6c, 0xe8, 0xee, 0xf0, 0xaf, 0xad, 0x0e, 0x10, 0x00, 0xff];
    prop_oneof![8 => prop::sample::select(special.to_vec()), 1 => any::<u8>()]
}

/// Pages that are mostly of one byte, with some bytes at the ends and here and there.
fn page() -> impl Strategy<Value = Box<Page>> {
    let offset = || prop_oneof![Just(0), Just(PAGE - 4), PAGE - 4..PAGE, 0..4usize, 0..PAGE];
    (byte(), vec((offset(), vec(byte(), 1..6)), 0..6)).prop_map(|(filling, parts)| {
        let mut page = Box::new([filling; PAGE]);
        for (offset, part) in parts {
            page.iter_mut().skip(offset).zip(part).for_each(|(to, from)| *to = from);
        }
        page
    })
}

fn pages() -> impl Strategy<Value = Vec<Box<Page>>> {
    vec(page(), 0..4)
}

#[test]
fn encodings_are_as_in_the_manual() {
    let [_, with] = both();
    for number in 0..1u32 << 24 {
        let [a, b, c, _] = number.to_le_bytes();
        let known = with.forbidden().find(|known| known.is([a, b, c]));
        assert_eq!(known, encoding([a, b, c], with), "{a:02x} {b:02x} {c:02x}");
    }
}

/// Each of them at each byte of a page, in fillings that could hide it.
#[test]
fn every_offset_is_searched() {
    let [without, with] = both();
    for filling in [0x00, 0x0f, 0xee, 0xf0, 0xae, 0xaf] {
        let mut page = [filling; PAGE];
        assert_eq!((find(&page, without), find(&page, with)), (None, None), "{filling:02x}");
        for at in 0..PAGE - 2 {
            for (bytes, encoding) in [([0x0f, 0x01, 0xef], Encoding::Wrpkru), ([0x0f, 0xae, 0x6c], Encoding::Xrstor)] {
                page[at..at + 3].copy_from_slice(&bytes);
                // The filling may complete another one before it, too.
                let first =
                    naive(&page[at.saturating_sub(2)..PAGE.min(at + 5)], with).unwrap().1 + at.saturating_sub(2);
                let found = find(&page, with).unwrap();
                assert_eq!(found.offset, first, "{filling:02x} {encoding}");
                assert_eq!(find(&page, without).is_some(), encoding == Encoding::Wrpkru, "{filling:02x} {at}");
                page[at..at + 3].fill(filling);
            }
        }
    }
}

/// All there are of two last and two first bytes: a cut behind the first byte, and one behind the second.
#[test]
fn borders_are_decided_exactly() {
    let pairs = || (0..=u16::MAX).map(u16::to_be_bytes);
    let number = |pair: [u8; 2]| usize::from(u16::from_be_bytes(pair));
    for rules in both() {
        let heads: Vec<Summary> = pairs().map(|head| edges(head, [0, 0], rules)).collect();
        let tails: Vec<Summary> = pairs().map(|tail| edges([0, 0], tail, rules)).collect();
        for pair in pairs() {
            for byte in 0..=255 {
                let [a, b] = pair;
                // A page that begins with `byte, 0` completes nothing of which two bytes are missing.
                let behind_second = borders(tails[number([a, b])], heads[number([byte, 0])]);
                assert_eq!(behind_second, encoding([a, b, byte], rules).is_some(), "{a:02x} {b:02x} | {byte:02x}");
                let behind_first = borders(tails[number([0, byte])], heads[number([a, b])]);
                assert_eq!(behind_first, encoding([byte, a, b], rules).is_some(), "{byte:02x} | {a:02x} {b:02x}");
            }
            // The two cuts do not mix: the byte that one of them does not see changes nothing of it.
            let [first, second] = pair;
            let only = |bits: Summary, of: Summary| bits.bits() & !of.bits();
            let (head, tail) = (heads[number(pair)], tails[number(pair)]);
            assert_eq!(only(heads[number([first, 0])], head), 0);
            assert!(only(head, heads[number([first, 0])]) <= 1, "only the first case looks at the second byte");
            assert_eq!(only(tails[number([0, second])], tail), 0);
            assert_eq!(
                only(tail, tails[number([0, second])]) & 1 << 3,
                0,
                "the first case looks at the last byte only"
            );
        }
    }
}

#[test]
fn rules_follow_xcr0() {
    let known = [0, 1, 2, 3, 4, 5, 6, 7, 9, 17, 18];
    for bit in 0..64 {
        let rules = Rules::for_xcr0(1 << bit | 1);
        match rules {
            Ok(rules) => {
                assert!(known.contains(&bit), "{bit}");
                assert!(rules.forbid(Encoding::Wrpkru));
                assert_eq!(rules.forbid(Encoding::Xrstor), bit == 9);
            }
            Err(unknown) => assert!(!known.contains(&bit) && unknown.bits == 1 << bit, "{bit}"),
        }
    }
}

#[test]
fn zeroes_are_clear_beside_anything() {
    for rules in both() {
        assert_eq!(scan(&[0; PAGE], rules), Summary::ZEROES);
    }
    assert!(Summary::ZEROES.is_clear());
    let all: Vec<Summary> = (0..=255).filter_map(Summary::from_bits).collect();
    assert_eq!(all.len(), 128, "seven bits");
    for other in all {
        assert!(!borders(Summary::ZEROES, other) && !borders(other, Summary::ZEROES));
        assert_eq!(Summary::from_bits(other.bits()), Some(other));
    }
}

#[test]
fn text_of_no_pages_is_clear() {
    assert_eq!(judge([], both()[1]), None);
}

#[test]
fn what_is_wrong_is_told_in_one_line() {
    let [without, with] = both();
    let mut page = [0x90; PAGE];
    page[0x123..0x126].copy_from_slice(&[0x0f, 0x01, 0xef]);
    let why = judge([(0x40_1000, &page)], without).unwrap();
    let line = "WRPKRU at offset 0x123 of page 0x401000; the program is called by EPC-S";
    assert_eq!((why.to_string().as_str(), why.address()), (line, 0x40_1123));

    let (mut left, mut right) = ([0; PAGE], [0; PAGE]);
    left[PAGE - 1] = 0x0f;
    right[..2].copy_from_slice(&[0xae, 0x28]);
    let why = judge([(0x1000, &left), (0x2000, &right)], with).unwrap();
    let line = "XRSTOR at offset 0xfff of page 0x1000 and the one behind it; the program is called by EPC-S";
    assert_eq!((why.to_string().as_str(), why.address()), (line, 0x1fff));
    assert_eq!(judge([(0x1000, &left), (0x3000, &right)], with), None, "they do not lie side by side");
    assert_eq!(judge([(0x1000, &right), (0x2000, &left)], with), None);
}

#[test]
fn of_several_the_first_is_told() {
    let [_, with] = both();
    for (first, second) in [([0x0f, 0x01, 0xef], [0x0f, 0xae, 0x28]), ([0x0f, 0xae, 0x28], [0x0f, 0x01, 0xef])] {
        let mut page = [0; PAGE];
        page[60..63].copy_from_slice(&first);
        page[63..66].copy_from_slice(&second);
        assert_eq!(find(&page, with).map(place), naive(&page, with));
        assert_eq!(find(&page, with).unwrap().offset, 60);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn a_page_is_found_out_exactly(page in page(), rules in prop::sample::select(both().to_vec())) {
        let expected = naive(&*page, rules);
        prop_assert_eq!(find(&page, rules).map(place), expected);
        prop_assert_eq!(scan(&page, rules).is_clear(), expected.is_none());
    }

    #[test]
    fn pages_side_by_side_are_found_out_exactly(pages in pages(), rules in prop::sample::select(both().to_vec())) {
        let bytes: Vec<u8> = pages.iter().flat_map(|page| page.iter().copied()).collect();
        let expected = naive(&bytes, rules);
        // By the summaries alone.
        let summaries: Vec<Summary> = pages.iter().map(|page| scan(page, rules)).collect();
        let inside = summaries.iter().any(|summary| !summary.is_clear());
        let across = summaries.windows(2).any(|pair| borders(pair[0], pair[1]));
        prop_assert_eq!(inside || across, expected.is_some());
        for (at, pair) in summaries.windows(2).enumerate() {
            let four = &bytes[(at + 1) * PAGE - 2..(at + 1) * PAGE + 2];
            prop_assert_eq!(borders(pair[0], pair[1]), naive(four, rules).is_some());
        }
        // By the bytes, and with the place.
        let why = judge(pages.iter().zip(0..).map(|(page, number)| (number * PAGE as u64, &**page)), rules);
        prop_assert_eq!(why.map(|why| (why.found.encoding, why.address() as usize)), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_scanned(bytes in vec(any::<u8>(), PAGE), rules in prop::sample::select(both().to_vec())) {
        let page: &Page = bytes.as_slice().try_into().unwrap();
        prop_assert_eq!(find(page, rules).map(place), naive(page, rules));
    }
}
