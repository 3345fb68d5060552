//! nftables: transactions of tables, chains, sets and rules. Either all of a transaction counts, or nothing.

mod expression;

pub use expression::{Address, Expression, Port, Verdict};

use super::batch::{Attributes, Batch, CREATE};
use super::socket::Socket;
use super::{Error, Result};

const SUBSYSTEM: u16 = 10;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
/// IPv4 and IPv6 in one table.
const FAMILY_INET: u8 = 1;

const NEW_TABLE: u16 = 0;
const GET_TABLE: u16 = 1;
const DELETE_TABLE: u16 = 2;
const NEW_CHAIN: u16 = 3;
const NEW_RULE: u16 = 6;
const NEW_SET: u16 = 9;
const NEW_ELEMENTS: u16 = 12;
const DELETE_ELEMENTS: u16 = 14;

/// Of every list in a message.
const ITEM: u16 = 1;
/// So many go into one message: an attribute has at most 64 KiB.
const ELEMENTS_PER_MESSAGE: usize = 256;

/// Where packets pass.
#[derive(Clone, Copy)]
pub enum Hook {
    Prerouting = 0,
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
    table: String,
    sets: u32,
}

impl Transaction {
    pub fn new(table: &str) -> Transaction {
        let mut batch = Batch::new();
        batch.message(BATCH_BEGIN, 0, &header(0, SUBSYSTEM));
        Transaction { batch, table: table.to_owned(), sets: 0 }
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
    }

    /// One that others jump to.
    pub fn add_chain(&mut self, name: &str) {
        let table = self.table.clone();
        self.message(NEW_CHAIN, CREATE).text(1, &table).text(3, name);
    }

    pub fn add_rule(&mut self, chain: &str, expressions: &[Expression<'_>]) {
        const APPEND: u16 = super::batch::APPEND;
        let table = self.table.clone();
        self.message(NEW_RULE, CREATE | APPEND).text(1, &table).text(2, chain).nested(4, |list| {
            let mut list = expression::List { attributes: list };
            for expression in expressions {
                expression.write(&mut list);
            }
        });
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
        self.batch.message(BATCH_END, 0, &header(0, SUBSYSTEM));
        socket.send_acknowledged(self.batch, last, what).map(drop)
    }

    fn message(&mut self, kind: u16, flags: u16) -> Attributes<'_> {
        self.batch.message(SUBSYSTEM << 8 | kind, flags, &header(FAMILY_INET, 0))
    }
}

/// Whether there is such a table.
pub fn has_table(socket: &mut Socket, table: &str) -> Result<bool> {
    let mut batch = Batch::new();
    batch.message(SUBSYSTEM << 8 | GET_TABLE, 0, &header(FAMILY_INET, 0)).text(1, table);
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

fn header(family: u8, resource: u16) -> [u8; 4] {
    let [high, low] = resource.to_be_bytes();
    [family, 0, high, low]
}
