//! Does what a script says.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command as Process, ExitStatus, Stdio};
use std::sync::Mutex;

use super::parse::{Command, Ending, Joint, List, Part, Redirection, Word, parse};

/// What is to be run when a signal comes.
pub static TRAPS: Mutex<Vec<(i32, String)>> = Mutex::new(Vec::new());

pub struct Shell {
    pub status: i32,
    arguments: Vec<String>,
    variables: HashMap<String, String>,
    background: Vec<Child>,
}

impl Shell {
    pub fn new(arguments: &[String]) -> Shell {
        Shell { status: 0, arguments: arguments.to_vec(), variables: HashMap::new(), background: Vec::new() }
    }

    pub fn script(&mut self, script: &str) -> i32 {
        match parse(script) {
            Ok(list) => self.list(&list),
            Err(error) => {
                eprintln!("sh: {error}");
                self.status = 2;
            }
        }
        self.status
    }

    fn list(&mut self, list: &List) {
        for (joint, pipeline, ending) in list {
            let run = match joint {
                Joint::Always => true,
                Joint::IfWell => self.status == 0,
                Joint::IfNot => self.status != 0,
            };
            if run {
                self.pipeline(pipeline, *ending);
            }
        }
    }

    fn pipeline(&mut self, commands: &[Command], ending: Ending) {
        if let ([command], Ending::Wait) = (commands, ending) {
            self.command(command);
            return;
        }
        let mut children: Vec<Child> = Vec::new();
        for (index, command) in commands.iter().enumerate() {
            let Command::Simple { assignments, words, redirections } = command else {
                eprintln!("sh: only programs can be in pipes and in the background");
                self.status = 2;
                return;
            };
            let Some(mut process) = self.process(assignments, words) else { continue };
            if let Some(output) = children.last_mut().and_then(|before| before.stdout.take()) {
                process.stdin(output);
            }
            if index + 1 < commands.len() {
                process.stdout(Stdio::piped());
            }
            if !self.redirect(&mut process, redirections) {
                return;
            }
            match process.spawn() {
                Ok(child) => children.push(child),
                Err(error) => self.not_found(&process, &error),
            }
        }
        if ending == Ending::Background {
            self.status = 0;
            self.background.append(&mut children);
            return;
        }
        for mut child in children {
            self.status = child.wait().map_or(1, code);
        }
    }

    fn command(&mut self, command: &Command) {
        match command {
            Command::Simple { assignments, words, redirections } => self.simple(assignments, words, redirections),
            Command::Group(list) => self.list(list),
            Command::If { arms, otherwise } => {
                for (condition, body) in arms {
                    self.list(condition);
                    if self.status == 0 {
                        return self.list(body);
                    }
                }
                self.status = 0;
                self.list(otherwise);
            }
            Command::While { condition, body, until } => {
                loop {
                    self.list(condition);
                    if (self.status == 0) == *until {
                        break;
                    }
                    self.list(body);
                }
                self.status = 0;
            }
            Command::For { name, words, body } => {
                let values: Vec<String> = words.iter().flat_map(|word| self.expand(word)).collect();
                for value in values {
                    self.variables.insert(name.clone(), value);
                    self.list(body);
                }
            }
        }
    }

    fn simple(&mut self, assignments: &[(String, Word)], words: &[Word], redirections: &[Redirection]) {
        let values: Vec<String> = words.iter().flat_map(|word| self.expand(word)).collect();
        let Some((name, rest)) = values.split_first() else {
            for (name, word) in assignments {
                let value = self.expand_whole(word);
                self.variables.insert(name.clone(), value);
            }
            self.status = 0;
            return;
        };
        if self.builtin(name, rest, redirections) {
            return;
        }
        let Some(mut process) = self.process(assignments, words) else { return };
        if !self.redirect(&mut process, redirections) {
            return;
        }
        match process.status() {
            Ok(status) => self.status = code(status),
            Err(error) => self.not_found(&process, &error),
        }
    }

    /// Whether it was one.
    fn builtin(&mut self, name: &str, rest: &[String], redirections: &[Redirection]) -> bool {
        self.status = match name {
            ":" | "set" | "shift" | "umask" => 0,
            "exit" => std::process::exit(rest.first().and_then(|text| text.parse().ok()).unwrap_or(self.status)),
            "cd" => {
                let directory = rest.first().map_or("/", String::as_str);
                std::env::set_current_dir(directory).map_or_else(|error| crate::fail("cd", error), |()| 0)
            }
            "export" => {
                for (name, value) in rest.iter().filter_map(|word| word.split_once('=')) {
                    self.variables.insert(name.to_owned(), value.to_owned());
                }
                0
            }
            "wait" => self.background.drain(..).fold(0, |_, mut child| child.wait().map_or(1, code)),
            "trap" => {
                let script = rest.first().cloned().unwrap_or_default();
                let mut traps = TRAPS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                traps.extend(rest.iter().skip(1).filter_map(|name| Some((signal(name)?, script.clone()))));
                0
            }
            "read" => {
                let mut line = String::new();
                let count = std::io::stdin().read_line(&mut line).unwrap_or(0);
                if let Some(name) = rest.iter().find(|word| !word.starts_with('-')) {
                    self.variables.insert(name.clone(), line.trim_end_matches('\n').to_owned());
                }
                i32::from(count == 0)
            }
            "exec" => {
                let words: Vec<Word> = rest.iter().map(|word| vec![Part::Literal(word.clone())]).collect();
                let Some(mut process) = self.process(&[], &words) else { return true };
                if self.redirect(&mut process, redirections) {
                    let error = process.exec();
                    self.not_found(&process, &error);
                    std::process::exit(self.status);
                }
                1
            }
            _ => return false,
        };
        true
    }

    /// Our own tools are there whatever the path is.
    fn process(&mut self, assignments: &[(String, Word)], words: &[Word]) -> Option<Process> {
        let values: Vec<String> = words.iter().flat_map(|word| self.expand(word)).collect();
        let (name, rest) = values.split_first()?;
        let own = crate::find(name).and_then(|_| std::env::current_exe().ok());
        let mut process = match own {
            Some(program) => {
                let mut process = Process::new(program);
                process.arg0(name);
                process
            }
            None => Process::new(name),
        };
        process.args(rest).envs(&self.variables);
        for (name, word) in assignments {
            let value = self.expand_whole(word);
            process.env(name, value);
        }
        Some(process)
    }

    fn redirect(&mut self, process: &mut Process, redirections: &[Redirection]) -> bool {
        let mut output: Option<File> = None;
        for redirection in redirections {
            let opened = match redirection {
                Redirection::From(file) => {
                    let name = self.expand(file).join(" ");
                    match File::open(&name) {
                        Ok(file) => {
                            process.stdin(file);
                            Ok(())
                        }
                        Err(error) => Err((name, error)),
                    }
                }
                Redirection::To { descriptor, file, append } => {
                    let name = self.expand(file).join(" ");
                    let mut options = File::options();
                    options.create(true).write(true).append(*append).truncate(!append);
                    options
                        .open(&name)
                        .and_then(|file| {
                            if *descriptor == 1 {
                                output = Some(file.try_clone()?);
                                process.stdout(file);
                            } else {
                                process.stderr(file);
                            }
                            Ok(())
                        })
                        .map_err(|error| (name, error))
                }
                Redirection::Same { descriptor: 2 } => {
                    match output.as_ref().and_then(|file| file.try_clone().ok()) {
                        Some(file) => process.stderr(file),
                        None => process.stderr(std::io::stdout()),
                    };
                    Ok(())
                }
                Redirection::Same { .. } => {
                    process.stdout(std::io::stderr());
                    Ok(())
                }
            };
            if let Err((name, error)) = opened {
                eprintln!("sh: {name}: {error}");
                self.status = 1;
                return false;
            }
        }
        true
    }

    /// One word may become none or several, where it is not quoted.
    fn expand(&mut self, word: &Word) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        let mut current: Option<String> = None;
        for part in word {
            let (value, split) = match part {
                Part::Literal(text) => {
                    current.get_or_insert_default().push_str(text);
                    continue;
                }
                Part::Variable { name, default, quoted } => (self.variable(name, default), !quoted),
                Part::Substitution { script, quoted } => (self.substitute(script), !quoted),
            };
            if !split {
                current.get_or_insert_default().push_str(&value);
                continue;
            }
            for (index, piece) in value.split_whitespace().enumerate() {
                if index > 0 {
                    words.extend(current.take());
                }
                current.get_or_insert_default().push_str(piece);
            }
        }
        words.extend(current);
        words
    }

    /// As it stands in an assignment: never split.
    fn expand_whole(&mut self, word: &Word) -> String {
        let quoted: Word = word
            .iter()
            .map(|part| match part.clone() {
                Part::Variable { name, default, .. } => Part::Variable { name, default, quoted: true },
                Part::Substitution { script, .. } => Part::Substitution { script, quoted: true },
                literal => literal,
            })
            .collect();
        self.expand(&quoted).join("")
    }

    fn variable(&self, name: &str, default: &str) -> String {
        let value = match name {
            "?" => Some(self.status.to_string()),
            "$" => Some(std::process::id().to_string()),
            "#" => Some(self.arguments.len().to_string()),
            "@" | "*" => Some(self.arguments.join(" ")),
            "0" => Some("sh".to_owned()),
            name => match name.parse::<usize>() {
                Ok(number) => self.arguments.get(number - 1).cloned(),
                Err(_) => self.variables.get(name).cloned().or_else(|| std::env::var(name).ok()),
            },
        };
        value.filter(|value| !value.is_empty()).unwrap_or_else(|| default.to_owned())
    }

    fn substitute(&mut self, script: &str) -> String {
        let Ok(program) = std::env::current_exe() else {
            return String::new();
        };
        let mut process = Process::new(program);
        process.arg0("sh").args(["-c", script]).envs(&self.variables).stderr(Stdio::inherit());
        match process.output() {
            Ok(output) => {
                self.status = code(output.status);
                String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned()
            }
            Err(_) => String::new(),
        }
    }

    fn not_found(&mut self, process: &Process, error: &std::io::Error) {
        let missing = error.kind() == std::io::ErrorKind::NotFound;
        let name = process.get_program().to_string_lossy();
        eprintln!("sh: {name}: {}", if missing { "not found".to_owned() } else { error.to_string() });
        self.status = if missing { 127 } else { 126 };
    }
}

fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

fn signal(name: &str) -> Option<i32> {
    match name.strip_prefix("SIG").unwrap_or(name) {
        "HUP" | "1" => Some(1),
        "INT" | "2" => Some(2),
        "QUIT" | "3" => Some(3),
        "TERM" | "15" => Some(15),
        _ => None,
    }
}
