//! Rules for devices as a program: version 2 has no files for them, it asks one.

use super::DeviceRule;
use crate::sys::Instruction;

/// What the kernel tells the program: 16 bits of the kind of device and 16 bits of what is to be done, then two numbers.
const KIND_AND_ACCESS: i16 = 0;
const MAJOR: i16 = 4;
const MINOR: i16 = 8;
const BLOCK: i32 = 1;
const CHARACTER: i32 = 2;
const MAKE: i32 = 1;
const READ: i32 = 2;
const WRITE: i32 = 4;

/// Registers: the answer, what was told, and what is made of it.
const ANSWER: u8 = 0;
const TOLD: u8 = 1;
const KIND: u8 = 2;
const ACCESS: u8 = 3;
const MAJOR_NUMBER: u8 = 4;
const MINOR_NUMBER: u8 = 5;

/// A program that allows what one of the rules allows, and nothing else.
pub(super) fn program(rules: &[DeviceRule]) -> Vec<Instruction> {
    let mut program = vec![
        load(KIND, KIND_AND_ACCESS),
        with_number(0x54, KIND, 0xffff),
        load(ACCESS, KIND_AND_ACCESS),
        with_number(0x74, ACCESS, 16),
        load(MAJOR_NUMBER, MAJOR),
        load(MINOR_NUMBER, MINOR),
    ];
    for rule in rules {
        program.extend(allow(rule));
    }
    program.extend(answer(0));
    program
}

/// Answers yes if a rule fits, and goes on otherwise.
fn allow(rule: &DeviceRule) -> Vec<Instruction> {
    let mut steps = Vec::new();
    // Jumps are filled in when it is known how far the rule goes.
    let unless_equal =
        |register, number: i32| Instruction { code: 0x55, registers: register, offset: 0, immediate: number };
    steps.push(unless_equal(KIND, if rule.kind == 'b' { BLOCK } else { CHARACTER }));
    let access = rule.access.chars().fold(0, |bits, one| {
        bits | match one {
            'r' => READ,
            'w' => WRITE,
            'm' => MAKE,
            _ => 0,
        }
    });
    if access != READ | WRITE | MAKE {
        // What is asked for beyond what is allowed must be nothing.
        steps.push(Instruction { code: 0xbc, registers: TOLD | ACCESS << 4, offset: 0, immediate: 0 });
        steps.push(with_number(0x54, TOLD, !access));
        steps.push(unless_equal(TOLD, 0));
    }
    let number = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
    if let Some(major) = rule.major {
        steps.push(unless_equal(MAJOR_NUMBER, number(major)));
    }
    if let Some(minor) = rule.minor {
        steps.push(unless_equal(MINOR_NUMBER, number(minor)));
    }
    steps.extend(answer(1));
    let length = steps.len();
    for (place, step) in steps.iter_mut().enumerate().filter(|(_, step)| step.code == 0x55) {
        step.offset = i16::try_from(length - place - 1).unwrap_or(i16::MAX);
    }
    steps
}

/// Loads four bytes of what was told.
fn load(register: u8, offset: i16) -> Instruction {
    Instruction { code: 0x61, registers: register | TOLD << 4, offset, immediate: 0 }
}

fn with_number(code: u8, register: u8, immediate: i32) -> Instruction {
    Instruction { code, registers: register, offset: 0, immediate }
}

fn answer(value: i32) -> [Instruction; 2] {
    [with_number(0xb7, ANSWER, value), with_number(0x95, 0, 0)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Resources;
    use crate::cgroups::{Cgroups, V2};

    fn rule(kind: char, major: Option<u32>, minor: Option<u32>, access: &str) -> DeviceRule {
        DeviceRule { kind, major, minor, access: access.to_owned() }
    }

    #[test]
    fn jumps_lead_behind_the_rule() {
        let program = program(&[rule('c', Some(1), Some(3), "rwm"), rule('b', None, None, "m")]);
        let jumps: Vec<(usize, i16)> = program
            .iter()
            .enumerate()
            .filter(|(_, step)| step.code == 0x55)
            .map(|(place, step)| (place, step.offset))
            .collect();
        assert_eq!(jumps, [(6, 4), (7, 3), (8, 2), (11, 5), (14, 2)]);
        assert_eq!(program.len(), 6 + 5 + 6 + 2);
    }

    /// Where there is a hierarchy of version 2 and one may load programs, as on hosts that run containers.
    #[test]
    fn the_kernel_takes_it_and_does_as_it_says() {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let place = mounts.lines().find(|line| line.contains(" - cgroup2 ")).and_then(|line| line.split(' ').nth(4));
        let (Some(place), true) = (place, rustix::process::geteuid().is_root()) else { return };
        let cgroups = V2::new(place.into());
        let path = format!("rkube-test-devices-{}", std::process::id());
        cgroups.create(&path, &Resources::default(), true).unwrap();
        let result =
            cgroups.allow_devices(&path, &[rule('c', Some(1), Some(3), "rw"), rule('c', Some(1), Some(5), "r")]);
        let entrance = cgroups.entry(&path).by_files()[0].display().to_string();
        let script = format!(
            "echo 0 > {entrance}; echo x > /dev/null && echo null; head -c1 /dev/zero > /dev/null && echo zero; \
             (echo x > /dev/zero) 2> /dev/null || echo no-write; (: < /dev/full) 2> /dev/null || echo no-full"
        );
        let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        cgroups.remove_one(&path).unwrap();
        result.unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "null\nzero\nno-write\nno-full\n");
    }
}
