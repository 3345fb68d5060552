//! nftables: transactions of tables, chains, sets and rules. Either all of a transaction counts, or nothing.

mod expression;

pub use expression::{Address, Expression, Port, Verdict};

use super::batch::{APPEND, Attributes, Batch, CREATE, DUMP, attribute, text};
use super::socket::Socket;
use super::{Error, Result};

const SUBSYSTEM: u16 = 10;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;

const NEW_TABLE: u16 = 0;
const GET_TABLE: u16 = 1;
const DELETE_TABLE: u16 = 2;
const NEW_CHAIN: u16 = 3;
const GET_CHAIN: u16 = 4;
const NEW_RULE: u16 = 6;
const GET_RULE: u16 = 7;
const DELETE_RULE: u16 = 8;
const NEW_SET: u16 = 9;
const NEW_ELEMENTS: u16 = 12;
const DELETE_ELEMENTS: u16 = 14;

const FIXED_BYTES: usize = 4;
const POLICY_DROP: u32 = 0;
/// Of every list in a message.
const ITEM: u16 = 1;
/// So many go into one message: an attribute has at most 64 KiB.
const ELEMENTS_PER_MESSAGE: usize = 256;

/// Which packets a table sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Any = 0,
    /// IPv4 and IPv6.
    Inet = 1,
    Ipv4 = 2,
    Ipv6 = 10,
}

/// Where packets pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    Prerouting = 0,
    Input = 1,
    Forward = 2,
    Output = 3,
    Postrouting = 4,
}

#[derive(Clone, Copy)]
pub struct BaseChain {
    /// `nat` or `filter`.
    pub kind: &'static str,
    pub hook: Hook,
    pub priority: i32,
    /// What no rule has decided is dropped.
    pub drops: bool,
}

/// A set of keys, or a map from keys to values.
#[derive(Clone, Copy)]
pub struct Set {
    pub name: &'static str,
    pub key: &'static [Field],
    /// Empty: a set.
    pub value: &'static [Field],
}

/// What keys and values are made of. Each part begins at a multiple of four bytes.
#[derive(Clone, Copy)]
pub enum Field {
    Ipv4Address,
    Ipv6Address,
    Protocol,
    Port,
}

impl Field {
    fn bytes(self) -> u32 {
        if matches!(self, Field::Ipv6Address) { 16 } else { 4 }
    }

    /// By which `nft` knows how to show it.
    fn number(self) -> u32 {
        match self {
            Field::Ipv4Address => 7,
            Field::Ipv6Address => 8,
            Field::Protocol => 12,
            Field::Port => 13,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    pub key: Vec<u8>,
    /// Empty in a set.
    pub value: Vec<u8>,
}

pub struct Transaction {
    batch: Batch,
    family: Family,
    table: String,
    sets: u32,
}

impl Transaction {
    /// On a table of ours.
    pub fn new(table: &str) -> Transaction {
        Transaction::of(Family::Inet, table)
    }

    pub fn of(family: Family, table: &str) -> Transaction {
        let mut batch = Batch::new();
        batch.message(BATCH_BEGIN, 0, &header(Family::Any, SUBSYSTEM));
        Transaction { batch, family, table: table.to_owned(), sets: 0 }
    }

    pub fn add_table(&mut self) {
        let table = self.table.clone();
        self.message(NEW_TABLE, CREATE).text(1, &table);
    }

    pub fn delete_table(&mut self) {
        let table = self.table.clone();
        self.message(DELETE_TABLE, 0).text(1, &table);
    }

    pub fn add_base_chain(&mut self, name: &str, base: BaseChain) {
        let table = self.table.clone();
        let mut message = self.message(NEW_CHAIN, CREATE);
        message.text(1, &table).text(3, name).text(7, base.kind).nested(4, |hook| {
            hook.number_be(1, base.hook as u32).bytes(2, &base.priority.to_be_bytes());
        });
        if base.drops {
            message.number_be(5, POLICY_DROP);
        }
    }

    /// One that others jump to.
    pub fn add_chain(&mut self, name: &str) {
        let table = self.table.clone();
        self.message(NEW_CHAIN, CREATE).text(1, &table).text(3, name);
    }

    /// Behind those that are there.
    pub fn add_rule(&mut self, chain: &str, expressions: &[Expression<'_>]) {
        self.rule(CREATE | APPEND, chain, expressions);
    }

    /// Before those that are there, with a word by which it is known.
    pub fn insert_rule(&mut self, chain: &str, expressions: &[Expression<'_>], comment: &str) {
        self.rule(CREATE, chain, expressions).bytes(7, &user_data(comment));
    }

    fn rule(&mut self, flags: u16, chain: &str, expressions: &[Expression<'_>]) -> Attributes<'_> {
        let table = self.table.clone();
        let mut message = self.message(NEW_RULE, flags);
        message.text(1, &table).text(2, chain).nested(4, |list| {
            let mut list = expression::List { attributes: list };
            for expression in expressions {
                expression.write(&mut list);
            }
        });
        message
    }

    pub fn delete_rule(&mut self, chain: &str, handle: u64) {
        let table = self.table.clone();
        self.message(DELETE_RULE, 0).text(1, &table).text(2, chain).bytes(3, &handle.to_be_bytes());
    }

    pub fn add_set(&mut self, set: &Set) {
        const IS_MAP: u32 = 8;
        let table = self.table.clone();
        self.sets += 1;
        let id = self.sets;
        let kind = |fields: &[Field]| fields.iter().fold(0, |kind, field| kind << 6 | field.number());
        let length = |fields: &[Field]| fields.iter().map(|field| field.bytes()).sum();
        let mut message = self.message(NEW_SET, CREATE);
        message.text(1, &table).text(2, set.name).number_be(10, id);
        message.number_be(4, kind(set.key)).number_be(5, length(set.key));
        if !set.value.is_empty() {
            message.number_be(3, IS_MAP).number_be(6, kind(set.value)).number_be(7, length(set.value));
        }
    }

    pub fn add_elements(&mut self, set: &str, elements: &[Element]) {
        self.elements(NEW_ELEMENTS, CREATE, set, elements);
    }

    /// All of them must be there.
    pub fn delete_elements(&mut self, set: &str, elements: &[Element]) {
        self.elements(DELETE_ELEMENTS, 0, set, elements);
    }

    fn elements(&mut self, kind: u16, flags: u16, set: &str, elements: &[Element]) {
        let table = self.table.clone();
        for some in elements.chunks(ELEMENTS_PER_MESSAGE) {
            self.message(kind, flags).text(1, &table).text(2, set).nested(3, |list| {
                for element in some {
                    list.nested(ITEM, |item| {
                        item.nested(1, |key| _ = key.bytes(1, &element.key));
                        if !element.value.is_empty() {
                            item.nested(2, |value| _ = value.bytes(1, &element.value));
                        }
                    });
                }
            });
        }
    }

    pub fn commit(mut self, socket: &mut Socket, what: &'static str) -> Result<()> {
        let last = self.batch.len() - 1;
        if last == 0 {
            return Ok(());
        }
        self.batch.message(BATCH_END, 0, &header(Family::Any, SUBSYSTEM));
        socket.send_acknowledged(self.batch, last, what).map(drop)
    }

    fn message(&mut self, kind: u16, flags: u16) -> Attributes<'_> {
        self.batch.message(SUBSYSTEM << 8 | kind, flags, &header(self.family, 0))
    }
}

/// Whether there is such a table.
pub fn has_table(socket: &mut Socket, table: &str) -> Result<bool> {
    let mut batch = Batch::new();
    batch.message(SUBSYSTEM << 8 | GET_TABLE, 0, &header(Family::Inet, 0)).text(1, table);
    match socket.send(batch, "cannot look at the rules of nftables") {
        Ok(_) => Ok(true),
        Err(error) if error.is_absent() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Removes a table with all that is in it.
pub fn remove_table(socket: &mut Socket, table: &str) -> Result<()> {
    let mut transaction = Transaction::new(table);
    transaction.delete_table();
    match transaction.commit(socket, "cannot remove the rules of nftables") {
        Err(error @ Error::Refused { .. }) if error.is_absent() => Ok(()),
        result => result,
    }
}

/// A chain that packets pass by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundChain {
    pub family: Option<Family>,
    pub table: String,
    pub name: String,
    pub hook: u32,
    pub drops: bool,
}

/// The base chains of everybody.
pub fn base_chains(socket: &mut Socket) -> Result<Vec<FoundChain>> {
    let mut batch = Batch::new();
    batch.message(SUBSYSTEM << 8 | GET_CHAIN, DUMP, &header(Family::Any, 0));
    let answers = socket.dump(batch, "cannot look at the chains of nftables")?;
    let read = |answer: &Vec<u8>| {
        let (fixed, attributes) = answer.split_at_checked(FIXED_BYTES)?;
        Some(FoundChain {
            family: [Family::Inet, Family::Ipv4, Family::Ipv6].into_iter().find(|family| *family as u8 == fixed[0]),
            table: attribute(attributes, 1).map(text)?,
            name: attribute(attributes, 3).map(text)?,
            hook: attribute(attribute(attributes, 4)?, 1).and_then(number_be)?,
            drops: attribute(attributes, 5).and_then(number_be) == Some(POLICY_DROP),
        })
    };
    Ok(answers.iter().filter_map(read).collect())
}

/// The handles of a chain's rules that were inserted with this word.
pub fn rules_known_as(
    socket: &mut Socket,
    family: Family,
    table: &str,
    chain: &str,
    comment: &str,
) -> Result<Vec<u64>> {
    let mut batch = Batch::new();
    batch.message(SUBSYSTEM << 8 | GET_RULE, DUMP, &header(family, 0)).text(1, table).text(2, chain);
    let answers = socket.dump(batch, "cannot look at the rules of nftables")?;
    let comment = user_data(comment);
    let read = |answer: &Vec<u8>| {
        let attributes = answer.get(FIXED_BYTES..)?;
        // Kernels may show all rules, whatever was asked for.
        let here = attribute(attributes, 1).map(text)? == table && attribute(attributes, 2).map(text)? == chain;
        let ours = here && attribute(attributes, 7) == Some(&comment);
        let handle = attribute(attributes, 3)?.try_into().ok().map(u64::from_be_bytes)?;
        ours.then_some(handle)
    };
    Ok(answers.iter().filter_map(read).collect())
}

/// A comment as `nft` and `iptables` show it: a kind, a length, the text.
fn user_data(comment: &str) -> Vec<u8> {
    const COMMENT: u8 = 0;
    let length = u8::try_from(comment.len() + 1).expect("comments are short");
    [&[COMMENT, length], comment.as_bytes(), &[0]].concat()
}

fn number_be(value: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(value.get(..4)?.try_into().ok()?))
}

fn header(family: Family, resource: u16) -> [u8; FIXED_BYTES] {
    let [high, low] = resource.to_be_bytes();
    [family as u8, 0, high, low]
}
