//! Rows against what they are by definition.

use super::super::*;
use super::sums_up;
use proptest::prelude::*;

/// A page that only knows where its memory is.
type Map = PageMap<Arc<u64>>;

const CHUNKS: u64 = 3;

#[derive(Clone, Debug)]
enum Step {
    /// Fills what is absent of a chunk: in a row, or not quite.
    Fill(usize, u64, bool),
    /// All of it.
    FillAll(usize),
    Write(usize, u64),
    Take(usize, u64, u64),
    Clone(usize),
    Delete(usize),
    /// Somebody has another reference to a page, or gives it up again.
    Share(usize, u64),
    Unshare,
}

fn step() -> impl Strategy<Value = Step> {
    let (map, page) = (|| 0..10usize, || prop::sample::select(vec![0, 1, 3, 5, 511, 512, 513, 1023, 1024, 1535]));
    prop_oneof![
        4 => (map(), 0..CHUNKS, any::<bool>()).prop_map(|(map, chunk, row)| Step::Fill(map, chunk, row)),
        3 => map().prop_map(Step::FillAll),
        3 => (map(), page()).prop_map(|(map, page)| Step::Write(map, page)),
        3 => (map(), page(), 1..600u64).prop_map(|(map, page, count)| Step::Take(map, page, count)),
        3 => map().prop_map(Step::Clone),
        3 => map().prop_map(Step::Delete),
        1 => (map(), page()).prop_map(|(map, page)| Step::Share(map, page)),
        1 => Just(Step::Unshare),
    ]
}

/// The pages are counted in parts, from the beginning, and from the middle of something on.
fn counts(map: &Map, places: &[Option<u64>], writable: &[bool]) -> Result<(), TestCaseError> {
    let begins = |at: usize| places[at].is_some() && (at == 0 || places[at - 1].map(|before| before + 1) != places[at]);
    for first in [0, 4, 300, 512, 1025, CHUNKS * CHUNK, u64::MAX] {
        let all = || first as usize..places.len();
        let wanted = Survey {
            resident: all().filter(|at| places[*at].is_some()).count() as u64,
            shared: all().filter(|at| places[*at].is_some() && !writable[*at]).count() as u64,
            // (As the map says it, which is looked at elsewhere.)
            in_rows: all().filter(|at| map.chunk(at / CHUNK as usize).is_some_and(|chunk| chunk.is_row())).count()
                as u64,
            pieces: all().filter(|at| begins(*at)).count() as u64,
        };
        for most in 1..=CHUNKS as usize {
            let (mut counted, mut from) = (Survey::default(), Some(first));
            while let Some(at) = from {
                let (part, next) = map.survey(at, most, |page| **page);
                prop_assert!(next.is_none_or(|next| next > at));
                counted.resident += part.resident;
                counted.shared += part.shared;
                counted.in_rows += part.in_rows;
                counted.pieces += part.pieces;
                from = next;
            }
            prop_assert_eq!(&counted, &wanted, "from {}, {} chunks a part", first, most);
        }
    }
    Ok(())
}

struct World {
    maps: Vec<Map>,
    /// The next memory that nobody has had, in pages; chunks begin at multiples of theirs.
    next: u64,
    held: Vec<Arc<u64>>,
}

impl World {
    fn fill(&mut self, which: usize, first: u64, count: u64, row: bool) {
        let mut at = self.next.next_multiple_of(CHUNK);
        let map = &mut self.maps[which];
        map.fill(first, count, || {
            // (Where it is not quite one, a place is left out in the middle.)
            at += 1 + u64::from(!row && at % CHUNK == 300);
            Some(Arc::new(at - 1))
        });
        map.join(first, count, |page| **page);
        self.next = at;
    }

    fn step(&mut self, step: Step) {
        let count = self.maps.len();
        match step {
            Step::Fill(which, chunk, row) => self.fill(which % count, chunk * CHUNK, CHUNK, row),
            Step::FillAll(which) if self.maps[which % count].resident() == 0 => {
                self.fill(which % count, 0, CHUNKS * CHUNK, true);
                assert_eq!(self.maps[which % count].rows(0, CHUNKS, |page| **page), Some(Row::Alone));
            }
            Step::Write(which, page) => {
                // Often where the memory of the last one ends.
                self.next += 1 + page % 2;
                let new = Arc::new(self.next);
                drop(self.maps[which % count].make_writable(page, |_| Ok::<_, ()>(new)));
            }
            Step::Take(which, first, pages) => self.maps[which % count].take(first, pages, drop),
            Step::Clone(which) if count < 4 => {
                let clone = self.maps[which % count].clone_shared();
                self.maps.push(clone);
            }
            Step::Delete(which) if count > 1 => drop(self.maps.swap_remove(which % count)),
            Step::Share(which, page) => self.held.extend(self.maps[which % count].share(page)),
            Step::Unshare => drop(self.held.pop()),
            Step::Clone(_) | Step::Delete(_) | Step::FillAll(_) => {}
        }
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        for map in &mut self.maps {
            let places: Vec<Option<u64>> = (0..CHUNKS * CHUNK).map(|page| map.get(page).map(|page| **page)).collect();
            let writable: Vec<bool> = (0..CHUNKS * CHUNK).map(|page| map.writable(page)).collect();
            let in_row = |from: u64, count: u64| {
                let places = &places[from as usize..(from + count) as usize];
                places.iter().all(Option::is_some) && places.windows(2).all(|two| two[0].map(|at| at + 1) == two[1])
            };
            let all = |from: u64, count: u64, is: bool| {
                writable[from as usize..(from + count) as usize].iter().all(|one| *one == is)
            };
            for chunk in 0..CHUNKS {
                let first = chunk * CHUNK;
                match map.row(first + 77) {
                    Some(Row::Alone) => prop_assert!(in_row(first, CHUNK) && all(first, CHUNK, true)),
                    Some(Row::Shared) => prop_assert!(in_row(first, CHUNK) && all(first, CHUNK, false)),
                    None => prop_assert!(!in_row(first, CHUNK) || !all(first, CHUNK, true)),
                }
            }
            match map.rows(0, CHUNKS, |page| **page) {
                Some(Row::Alone) => prop_assert!(in_row(0, CHUNKS * CHUNK) && all(0, CHUNKS * CHUNK, true)),
                Some(Row::Shared) => prop_assert!(in_row(0, CHUNKS * CHUNK) && all(0, CHUNKS * CHUNK, false)),
                None => {}
            }
            prop_assert_eq!(map.rows(CHUNK, CHUNKS, |page| **page), None);
            prop_assert!(sums_up(map));
            counts(map, &places, &writable)?;
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn a_row_is_what_it_is_by_definition(steps in prop::collection::vec(step(), 1..30)) {
        let mut world = World { maps: vec![Map::new(CHUNKS * CHUNK)], next: 0, held: Vec::new() };
        for step in steps {
            world.step(step);
            world.check()?;
        }
    }
}
