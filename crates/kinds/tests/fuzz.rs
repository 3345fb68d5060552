//! The fuzz bodies over seeded bytes, the same on every run, so that they hold on every change and on every toolchain.
//! `RKUBE_FUZZ_INPUTS` says how many inputs each body gets.

#![allow(clippy::unwrap_used)]

#[path = "../../../fuzz/src/lib.rs"]
mod fuzz;

use fuzz::{Body, TARGETS};

const INPUTS: usize = 100;

/// A small seeded generator of numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % bound.max(1)
    }

    fn bytes(&mut self) -> Vec<u8> {
        let length = self.below(1200);
        (0..length).map(|_| self.below(256) as u8).collect()
    }

    /// The seed with a few bytes changed, taken away or repeated.
    fn mutated(&mut self, seed: &[u8]) -> Vec<u8> {
        let mut bytes = seed.to_vec();
        for _ in 0..=self.below(6) {
            let at = self.below(bytes.len() + 1);
            match self.below(4) {
                0 => bytes.insert(at, self.below(256) as u8),
                1 if at < bytes.len() => drop(bytes.remove(at)),
                2 if at < bytes.len() => bytes[at] = b"{}[]\":,\\&*|>-?!# \n01.aeE=()"[self.below(27)],
                _ => bytes.extend_from_within(..at),
            }
        }
        bytes
    }
}

#[test]
fn nothing_panics_and_what_is_written_reads_back() {
    let inputs = std::env::var("RKUBE_FUZZ_INPUTS").map_or(INPUTS, |inputs| inputs.parse().unwrap());
    let threads: Vec<_> = TARGETS
        .iter()
        .map(|&(name, body, seeds)| {
            let run = move || run(body, seeds, inputs);
            // As large as the stack of a worker thread, on which requests are served.
            std::thread::Builder::new().name(name.to_owned()).stack_size(2 << 20).spawn(run).unwrap()
        })
        .collect();
    let outcomes =
        threads.into_iter().map(|thread| (thread.thread().name().unwrap().to_owned(), thread.join().is_ok()));
    let failed: Vec<String> = outcomes.filter(|(_, passed)| !passed).map(|(name, _)| name).collect();
    assert!(failed.is_empty(), "these bodies failed: {failed:?}");
}

fn run(body: Body, seeds: &[&[u8]], inputs: usize) {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for count in 0..inputs {
        let input = match seeds.get(count % (seeds.len() + 2)) {
            Some(seed) if count < seeds.len() => seed.to_vec(),
            Some(seed) => random.mutated(seed),
            None => random.bytes(),
        };
        body(&input);
    }
}
