//! Profiles of system calls, as people write them down (the format of OCI and Docker), and as programs for the kernel.

use std::collections::{BTreeMap, BTreeSet};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};
use serde::Deserialize;

use super::table::{LAST_KNOWN, number};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Profile {
    pub(super) default: Action,
    pub(super) rules: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rule {
    pub(super) names: Vec<String>,
    pub(super) action: Action,
    /// All of them have to hold.
    pub(super) arguments: Vec<Argument>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Action {
    Allow,
    Log,
    Trace(u32),
    Error(u32),
    Trap,
    KillThread,
    KillProcess,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Argument {
    pub(super) index: u8,
    pub(super) comparison: Comparison,
    pub(super) value: u64,
    /// For a comparison under a mask, which is the other value then.
    pub(super) value_two: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum Comparison {
    #[serde(rename = "SCMP_CMP_NE")]
    NotEqual,
    #[serde(rename = "SCMP_CMP_LT")]
    Less,
    #[serde(rename = "SCMP_CMP_LE")]
    LessOrEqual,
    #[serde(rename = "SCMP_CMP_EQ")]
    Equal,
    #[serde(rename = "SCMP_CMP_GE")]
    GreaterOrEqual,
    #[serde(rename = "SCMP_CMP_GT")]
    Greater,
    #[serde(rename = "SCMP_CMP_MASKED_EQ")]
    MaskedEqual,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    default_action: String,
    #[serde(default)]
    default_errno_ret: Option<u32>,
    #[serde(default)]
    syscalls: Option<Vec<DocumentRule>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DocumentRule {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    names: Option<Vec<String>>,
    action: String,
    #[serde(default)]
    errno_ret: Option<u32>,
    #[serde(default)]
    args: Option<Vec<DocumentArgument>>,
    #[serde(default)]
    includes: Option<Condition>,
    #[serde(default)]
    excludes: Option<Condition>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DocumentArgument {
    index: u8,
    value: u64,
    #[serde(default)]
    value_two: u64,
    op: Comparison,
}

/// When a rule counts.
#[derive(Debug, Default, Deserialize)]
struct Condition {
    #[serde(default)]
    caps: Option<Vec<String>>,
    #[serde(default)]
    arches: Option<Vec<String>>,
}

impl Condition {
    fn holds(&self, has: &dyn Fn(&str) -> bool) -> bool {
        let short = |name: &String| has(name.strip_prefix("CAP_").unwrap_or(name));
        self.caps.as_ref().is_none_or(|names| names.iter().all(short))
            && self.arches.as_ref().is_none_or(|names| names.iter().any(|name| ARCHITECTURES.contains(&name.as_str())))
    }

    fn is_empty(&self) -> bool {
        self.caps.as_ref().is_none_or(Vec::is_empty) && self.arches.as_ref().is_none_or(Vec::is_empty)
    }
}

#[cfg(target_arch = "x86_64")]
const ARCHITECTURES: &[&str] = &["amd64", "x86_64"];
#[cfg(target_arch = "aarch64")]
const ARCHITECTURES: &[&str] = &["arm64", "aarch64"];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ARCHITECTURES: &[&str] = &["riscv64"];

impl Profile {
    pub(super) fn parse(text: &[u8], has: &dyn Fn(&str) -> bool) -> Result<Self, String> {
        let document: Document =
            serde_json::from_slice(text).map_err(|error| format!("decoding seccomp profile failed: {error}"))?;
        let default = action(&document.default_action, document.default_errno_ret)?;
        let mut rules = Vec::new();
        for rule in document.syscalls.unwrap_or_default() {
            let excluded =
                rule.excludes.as_ref().is_some_and(|condition| !condition.is_empty() && condition.holds(has));
            if excluded || rule.includes.as_ref().is_some_and(|condition| !condition.holds(has)) {
                continue;
            }
            let argument = |given: DocumentArgument| Argument {
                index: given.index,
                comparison: given.op,
                value: given.value,
                value_two: given.value_two,
            };
            rules.push(Rule {
                names: rule.names.unwrap_or_default().into_iter().chain(rule.name).collect(),
                action: action(&rule.action, rule.errno_ret)?,
                arguments: rule.args.unwrap_or_default().into_iter().map(argument).collect(),
            });
        }
        Ok(Self { default, rules })
    }

    /// Programs to be put on in this order: the kernel asks all of them, and the strictest answer counts.
    pub(super) fn compile(&self) -> Result<Vec<BpfProgram>, String> {
        let mut programs = Vec::new();
        if self.default != Action::Allow {
            let rules = self.rules.iter().filter(|rule| rule.action != self.default);
            programs.push(program(rules, self.default, Action::Allow)?);
        }
        let actions: BTreeSet<Action> = self.rules.iter().map(|rule| rule.action).collect();
        for action in actions.into_iter().filter(|action| *action != Action::Allow && *action != self.default) {
            let rules = self.rules.iter().filter(|rule| rule.action == action);
            programs.push(program(rules, Action::Allow, action)?);
        }
        if matches!(self.default, Action::Error(_)) {
            programs.push(unknown_calls());
        }
        Ok(programs)
    }
}

/// Says of calls that nobody knew when profiles were written that there is no such call, so that callers turn to an older
/// one: that one is forbidden, they would take for an answer. Put on last, it is the one whose error is told.
fn unknown_calls() -> BpfProgram {
    let step = |code, jt, jf, k| seccompiler::sock_filter { code, jt, jf, k };
    vec![
        // Load the number; skip one step unless it is greater; return.
        step(0x20, 0, 0, 0),
        step(0x25, 0, 1, LAST_KNOWN),
        step(0x06, 0, 0, 0x0005_0000 | libc::ENOSYS.cast_unsigned()),
        step(0x06, 0, 0, 0x7fff_0000),
    ]
}

fn program<'a>(rules: impl Iterator<Item = &'a Rule>, otherwise: Action, then: Action) -> Result<BpfProgram, String> {
    let said = |error: seccompiler::BackendError| format!("a seccomp profile that cannot be: {error}");
    let mut by_number: BTreeMap<i64, Option<Vec<SeccompRule>>> = BTreeMap::new();
    for rule in rules {
        let conditions = conditions(&rule.arguments).map_err(said)?;
        // What this kernel does not have needs no rule.
        for number in rule.names.iter().filter_map(|name| number(name)) {
            let place = by_number.entry(number).or_insert_with(|| Some(Vec::new()));
            if conditions.is_empty() {
                *place = None;
            } else if let Some(place) = place {
                place.extend(conditions.iter().cloned());
            }
        }
    }
    // Without conditions: whatever the arguments are.
    let rules = by_number.into_iter().map(|(number, rules)| (number, rules.unwrap_or_default())).collect();
    let target = TargetArch::try_from(std::env::consts::ARCH).map_err(said)?;
    SeccompFilter::new(rules, otherwise.into(), then.into(), target).and_then(BpfProgram::try_from).map_err(said)
}

/// One rule of all arguments; where two are about the same one, a rule for each.
fn conditions(arguments: &[Argument]) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let made: Vec<SeccompCondition> = arguments.iter().map(condition).collect::<Result<_, _>>()?;
    let different: BTreeSet<u8> = arguments.iter().map(|argument| argument.index).collect();
    if made.is_empty() {
        Ok(Vec::new())
    } else if different.len() == made.len() {
        Ok(vec![SeccompRule::new(made)?])
    } else {
        made.into_iter().map(|one| SeccompRule::new(vec![one])).collect()
    }
}

fn condition(argument: &Argument) -> Result<SeccompCondition, seccompiler::BackendError> {
    let (operator, value) = match argument.comparison {
        Comparison::NotEqual => (SeccompCmpOp::Ne, argument.value),
        Comparison::Less => (SeccompCmpOp::Lt, argument.value),
        Comparison::LessOrEqual => (SeccompCmpOp::Le, argument.value),
        Comparison::Equal => (SeccompCmpOp::Eq, argument.value),
        Comparison::GreaterOrEqual => (SeccompCmpOp::Ge, argument.value),
        Comparison::Greater => (SeccompCmpOp::Gt, argument.value),
        Comparison::MaskedEqual => (SeccompCmpOp::MaskedEq(argument.value), argument.value_two),
    };
    SeccompCondition::new(argument.index, SeccompCmpArgLen::Qword, operator, value)
}

fn action(name: &str, errno: Option<u32>) -> Result<Action, String> {
    Ok(match name {
        "SCMP_ACT_ALLOW" => Action::Allow,
        "SCMP_ACT_LOG" => Action::Log,
        "SCMP_ACT_TRACE" => Action::Trace(errno.unwrap_or(libc::EPERM.cast_unsigned())),
        "SCMP_ACT_ERRNO" => Action::Error(errno.unwrap_or(libc::EPERM.cast_unsigned())),
        "SCMP_ACT_TRAP" => Action::Trap,
        "SCMP_ACT_KILL" | "SCMP_ACT_KILL_THREAD" => Action::KillThread,
        "SCMP_ACT_KILL_PROCESS" => Action::KillProcess,
        _ => return Err(format!("the seccomp action {name:?} is not supported")),
    })
}

impl From<Action> for SeccompAction {
    fn from(action: Action) -> Self {
        match action {
            Action::Allow => Self::Allow,
            Action::Log => Self::Log,
            Action::Trace(number) => Self::Trace(number),
            Action::Error(number) => Self::Errno(number),
            Action::Trap => Self::Trap,
            Action::KillThread => Self::KillThread,
            Action::KillProcess => Self::KillProcess,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_in_a_file_is_read() {
        let text = br#"{"defaultAction":"SCMP_ACT_ERRNO","defaultErrnoRet":38,"architectures":["SCMP_ARCH_X86_64"],"syscalls":[
            {"names":["read","write","chown32"],"action":"SCMP_ACT_ALLOW"},
            {"names":["clone"],"action":"SCMP_ACT_ALLOW","args":[{"index":0,"value":2114060288,"op":"SCMP_CMP_MASKED_EQ"}]},
            {"names":["mount"],"action":"SCMP_ACT_ALLOW","includes":{"caps":["CAP_SYS_ADMIN"]}},
            {"names":["chmod"],"action":"SCMP_ACT_KILL_PROCESS","excludes":{"caps":["CAP_CHOWN"]}}]}"#;
        let profile = Profile::parse(text, &|_| false).unwrap();
        assert_eq!(profile.default, Action::Error(38));
        assert_eq!(profile.rules.len(), 3);
        assert_eq!(profile.compile().unwrap().len(), 3);
        let profile = Profile::parse(text, &|_| true).unwrap();
        assert_eq!(profile.rules.len(), 3);
        assert_eq!(profile.compile().unwrap().len(), 2);
        assert!(Profile::parse(br#"{"defaultAction":"SCMP_ACT_NOTIFY"}"#, &|_| true).is_err());
        assert!(Profile::parse(b"{", &|_| true).is_err());
    }
}
