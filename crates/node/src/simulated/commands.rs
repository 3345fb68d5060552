//! What a container without a runtime does: its command says how long it would run and how it would end, where that is
//! plain to see. What is not understood runs until it is stopped.

use std::time::Duration;

use rkube_machinery::Value;

use crate::pod::spec::{Container, Role};

/// How a container ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    pub after: Duration,
    pub code: i64,
}

const AT_ONCE: Ending = Ending { after: Duration::ZERO, code: 0 };

/// Images that run a shell where no command is given, which ends when nobody types.
const SHELLS: [&str; 5] = ["busybox", "alpine", "ubuntu", "debian", "bash"];

/// Programs that end soon, and well.
const SHORT: [&str; 24] = [
    "true", "echo", "printf", "date", "env", "printenv", "hostname", "id", "ls", "pwd", "uname", "whoami", "test", "[",
    "wget", "curl", "nslookup", "touch", "mkdir", "cp", "mv", "rm", "kubectl", ":",
];

/// Words of a shell that stand for more than can be seen here.
const CONTROL: [&str; 10] = ["while", "until", "for", "if", "case", "trap", "wait", "exec", "{", "("];

/// None: it runs until it is stopped.
pub fn ending(container: Container<'_>) -> Option<Ending> {
    let command = words(container.value, "command");
    let arguments = words(container.value, "args");
    let is_init = container.role == Role::Init;
    let runs_shell = SHELLS.contains(&base_name(container.image()));
    let ending = match (command.is_empty(), arguments.is_empty()) {
        // What the image does with them is not known, but for one that only has a shell.
        (true, true) if runs_shell => Some(AT_ONCE),
        (true, false) if !runs_shell => None,
        (true, true) => None,
        _ => of_words(&[command, arguments].concat()),
    };
    // Nobody means an init container to run for ever.
    ending.or_else(|| is_init.then_some(AT_ONCE))
}

fn words<'a>(container: &'a Value, field: &str) -> Vec<&'a str> {
    container.list(field).iter().map(Value::as_str).collect()
}

/// `registry/group/busybox:1.36@sha256:…` is `busybox`.
fn base_name(image: &str) -> &str {
    let name = image.rsplit('/').next().unwrap_or_default();
    name.split([':', '@']).next().unwrap_or_default()
}

fn of_words(words: &[&str]) -> Option<Ending> {
    let (program, arguments) = words.split_first()?;
    let program = program.rsplit('/').next().unwrap_or_default();
    match program {
        "false" => Some(Ending { code: 1, ..AT_ONCE }),
        "sleep" => Some(Ending { after: slept(arguments)?, code: 0 }),
        "exit" => Some(Ending { code: arguments.first().map_or(Some(0), |code| code.parse().ok())?, ..AT_ONCE }),
        "cat" if !arguments.is_empty() => Some(AT_ONCE),
        "sh" | "bash" | "ash" | "dash" | "busybox" => match arguments {
            [flag, script, ..] if flag.starts_with('-') && flag.ends_with('c') => of_script(script),
            [] => Some(AT_ONCE),
            _ if program == "busybox" => of_words(arguments),
            _ => None,
        },
        _ if SHORT.contains(&program) => Some(AT_ONCE),
        _ => None,
    }
}

/// `sleep 5; exit 3`: one statement after the other. A script with anything else in it is not understood.
fn of_script(script: &str) -> Option<Ending> {
    let mut sum = AT_ONCE;
    let mut skip_until_semicolon = false;
    for (statement, stops_on_failure) in statements(script)? {
        if skip_until_semicolon {
            skip_until_semicolon = stops_on_failure;
            continue;
        }
        let words: Vec<&str> = statement.split_whitespace().collect();
        let Some(first) = words.first() else { continue };
        if CONTROL.contains(first) || words.last().is_some_and(|last| last.ends_with('&')) {
            return None;
        }
        let one = of_words(&words)?;
        sum = Ending { after: sum.after.saturating_add(one.after), code: one.code };
        if *first == "exit" {
            break;
        }
        skip_until_semicolon = stops_on_failure && one.code != 0;
    }
    Some(sum)
}

/// Statements, and whether what follows is left out where one fails. None where there is more than that.
fn statements(script: &str) -> Option<Vec<(&str, bool)>> {
    if script.contains("||") || script.contains('|') || script.contains("$(") || script.contains('`') {
        return None;
    }
    let mut found = Vec::new();
    for line in script.split(['\n', ';']) {
        let parts: Vec<&str> = line.split("&&").map(str::trim).collect();
        let last = parts.len() - 1;
        found.extend(parts.into_iter().enumerate().map(|(number, part)| (part, number < last)));
    }
    Some(found)
}

/// The sum of `5`, `0.5`, `2m`, `1h`, `1d`. None for ever.
fn slept(arguments: &[&str]) -> Option<Duration> {
    let mut sum = Duration::ZERO;
    if arguments.is_empty() {
        return None;
    }
    for argument in arguments {
        let (number, factor) = match argument.as_bytes().last()? {
            b's' => (&argument[..argument.len() - 1], 1.0),
            b'm' => (&argument[..argument.len() - 1], 60.0),
            b'h' => (&argument[..argument.len() - 1], 3600.0),
            b'd' => (&argument[..argument.len() - 1], 86_400.0),
            _ => (*argument, 1.0),
        };
        let seconds: f64 = number.parse().ok()?;
        sum = sum.checked_add(Duration::try_from_secs_f64(seconds * factor).ok()?)?;
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use rkube_machinery::{json, object};

    use super::*;

    fn ends(role: Role, image: &str, command: &[&str], arguments: &[&str]) -> Option<(u128, i64)> {
        let list = |words: &[&str]| words.iter().map(|word| Value::from(*word)).collect::<Vec<_>>();
        let value = object! { "name": "a", "image": image, "command": list(command), "args": list(arguments) };
        let value = json::parse(json::to_string(&value).as_bytes()).unwrap();
        ending(Container { role, value: &value }).map(|ending| (ending.after.as_millis(), ending.code))
    }

    #[test]
    fn commands_say_how_they_end() {
        type Row = (&'static [&'static str], Option<(u128, i64)>);
        let table: [Row; 22] = [
            (&[], None),
            (&["true"], Some((0, 0))),
            (&["/bin/false"], Some((0, 1))),
            (&["sleep", "5"], Some((5000, 0))),
            (&["sleep", "0.5"], Some((500, 0))),
            (&["sleep", "1m"], Some((60_000, 0))),
            (&["sleep", "infinity"], None),
            (&["sleep"], None),
            (&["sh", "-c", "exit 3"], Some((0, 3))),
            (&["/bin/sh", "-ec", "sleep 2; exit 4"], Some((2000, 4))),
            (&["sh", "-c", "echo a && sleep 1 && false"], Some((1000, 1))),
            (&["sh", "-c", "false && sleep 100; exit 7"], Some((0, 7))),
            (&["sh", "-c", "false && sleep 100"], Some((0, 1))),
            (&["sh", "-c", "while true; do sleep 1; done"], None),
            (&["sh", "-c", "sleep 1 & wait"], None),
            (&["sh", "-c", "cat /x | grep y"], None),
            (&["sh", "-c", "exit"], Some((0, 0))),
            (&["sh", "-c", "exit $CODE"], None),
            (&["wget", "web:80"], Some((0, 0))),
            (&["nginx", "-g", "daemon off;"], None),
            (&["cat"], None),
            (&["cat", "/etc/hosts"], Some((0, 0))),
        ];
        for (command, expected) in table {
            assert_eq!(ends(Role::Main, "web:1", command, &[]), expected, "{command:?}");
        }
    }

    #[test]
    fn images_and_parts_matter_where_there_is_no_command() {
        let busybox = "registry.k8s.io/e2e-test-images/busybox:1.36@sha256:00";
        assert_eq!(ends(Role::Main, busybox, &[], &[]), Some((0, 0)));
        assert_eq!(ends(Role::Main, busybox, &[], &["sleep", "3"]), Some((3000, 0)));
        assert_eq!(ends(Role::Main, "postgres", &[], &["sleep", "3"]), None);
        assert_eq!(ends(Role::Init, "migrate", &[], &[]), Some((0, 0)));
        assert_eq!(ends(Role::Init, "x", &["sh", "-c", "until nslookup db; do sleep 1; done"], &[]), Some((0, 0)));
        assert_eq!(ends(Role::Sidecar, "proxy", &[], &[]), None);
    }
}
