//! Strategic merge patches made by Kubernetes' own library do with our objects what they do with its own.
//!
//! The library runs in a Go program of `tests/clients`; where that is not there the test is skipped, and says so.

use std::cell::{Cell, RefCell};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rkube_kinds::Kind;
use rkube_machinery::patch::strategic;
use rkube_machinery::{Value, json, object};
use rkube_testkit::tools;

use crate::codecs::canonical;
use crate::generator;
use crate::property::{Verdict, for_every_kind, same};

#[test]
fn patches_made_by_kubernetes_lead_where_it_says() {
    let Some(program) = tools::go_program("go-client") else { return };
    let library = RefCell::new(Library::start(Command::new(program).arg("--patches")));
    let (asked, reached) = (Cell::new(0), Cell::new(0));
    for_every_kind(
        "strategic merge patches",
        15,
        |random, kind| {
            let original = generator::changed(random, kind);
            let modified = generator::changed_again(random, kind, original.clone());
            let current = generator::changed_again(random, kind, original.clone());
            vec![original, modified, current]
        },
        |kind, objects| {
            let objects: Result<Vec<Value>, String> = objects.iter().map(|object| canonical(kind, object)).collect();
            let [original, modified, current] = objects?.try_into().unwrap_or_else(|_| unreachable!("three were made"));
            let question = object! {
                "apiVersion": kind.api_version(),
                "kind": kind.kind.clone(),
                "original": original.clone(),
                "modified": modified.clone(),
                "current": current.clone(),
            };
            let answers = library.borrow_mut().answer(&question);
            if answers.bool("unknown") {
                return Ok(());
            }
            leads("two-way", kind, &original, answers.get("twoWay"))?;
            leads("three-way", kind, &current, answers.get("threeWay"))?;
            asked.set(asked.get() + 1);
            reached.set(reached.get() + usize::from(*answers.get("twoWay").get("result") == modified));
            Ok(())
        },
    );
    // Not all: the library itself does not get to every object.
    assert!(reached.get() * 10 > asked.get() * 7, "{} of {} patches led to the object", reached.get(), asked.get());
}

/// Whether the patch makes of the document here what it makes of it there.
fn leads(what: &str, kind: &Kind, document: &Value, answer: &Value) -> Verdict {
    if !answer.has("patch") {
        return Ok(());
    }
    let patch = answer.get("patch");
    let shown = || format!("{what} patch {}", json::to_string(patch));
    match (strategic::apply(patch, document, kind.schema.table().unwrap()), answer.str("error")) {
        (Ok(found), "") => same(&shown(), answer.get("result"), &found),
        (Ok(_), error) => Err(format!("{} should be refused: {error}", shown())),
        (Err(error), "") => Err(format!("{} is refused: {error}", shown())),
        (Err(_), _) => Ok(()),
    }
}

/// The Go program. It ends when nobody asks any more.
struct Library {
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Library {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (questions, answers) = (child.stdin.take(), child.stdout.take().unwrap());
        Library { child, questions, answers: BufReader::new(answers) }
    }

    fn answer(&mut self, question: &Value) -> Value {
        let questions = self.questions.as_mut().unwrap();
        questions.write_all(format!("{}\n", json::to_string(question)).as_bytes()).unwrap();
        questions.flush().unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        json::parse(line.as_bytes()).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        self.questions.take();
        let _ = self.child.wait();
    }
}
