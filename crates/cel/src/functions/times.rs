//! Parts of points in time and of durations.

use super::{Function, Outcome, failed, unfit};
use crate::time::{Civil, Timestamp, fixed_offset};
use crate::value::Value;

const NANOS: i64 = 1_000_000_000;

pub fn lookup(name: &str) -> Option<Function> {
    Some(match name {
        "getFullYear" => |arguments| part(arguments, |civil| civil.year),
        "getMonth" => |arguments| part(arguments, |civil| civil.month - 1),
        "getDayOfYear" => |arguments| part(arguments, |civil| civil.day_of_year),
        "getDayOfMonth" => |arguments| part(arguments, |civil| civil.day - 1),
        "getDate" => |arguments| part(arguments, |civil| civil.day),
        "getDayOfWeek" => |arguments| part(arguments, |civil| civil.weekday),
        "getHours" => |arguments| match arguments {
            [Value::Duration(nanos)] => Ok(Value::Int(nanos / NANOS / 3600)),
            _ => part(arguments, |civil| civil.hour),
        },
        "getMinutes" => |arguments| match arguments {
            [Value::Duration(nanos)] => Ok(Value::Int(nanos / NANOS / 60)),
            _ => part(arguments, |civil| civil.minute),
        },
        "getSeconds" => |arguments| match arguments {
            [Value::Duration(nanos)] => Ok(Value::Int(nanos / NANOS)),
            _ => part(arguments, |civil| civil.second),
        },
        "getMilliseconds" => |arguments| match arguments {
            [Value::Duration(nanos)] => Ok(Value::Int(nanos / 1_000_000)),
            [Value::Timestamp(at)] => Ok(Value::Int(i64::from(at.nanos / 1_000_000))),
            [Value::Timestamp(at), Value::String(zone)] => match offset(at, zone) {
                Some(_) => Ok(Value::Int(i64::from(at.nanos / 1_000_000))),
                None => failed(format!("unknown time zone {zone}")),
            },
            _ => unfit(),
        },
        _ => return None,
    })
}

fn part<'a>(arguments: &[Value<'a>], of: fn(&Civil) -> i64) -> Outcome<'a> {
    match arguments {
        [Value::Timestamp(at)] => Ok(Value::Int(of(&at.civil(0)))),
        [Value::Timestamp(at), Value::String(zone)] => match offset(at, zone) {
            Some(offset) => Ok(Value::Int(of(&at.civil(offset)))),
            None => failed(format!("unknown time zone {zone}")),
        },
        _ => unfit(),
    }
}

/// How far the zone is from UTC at this time.
fn offset(at: &Timestamp, zone: &str) -> Option<i64> {
    fixed_offset(zone).or_else(|| crate::zones::offset(zone, at.seconds))
}
