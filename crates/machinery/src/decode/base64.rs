//! Base64 as Go's standard decoder takes it: padded, line breaks ignored, stray low bits dropped.

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// What a letter stands for; 255: no letter.
const VALUES: [u8; 256] = {
    let mut table = [255; 256];
    let mut index = 0;
    while index < 64 {
        table[LETTERS[index] as usize] = index as u8;
        index += 1;
    }
    table
};

/// The text in canonical form, none where it already is; the error is the offset that Go reports.
pub fn canonical(text: &str) -> Result<Option<String>, usize> {
    if is_canonical(text.as_bytes()) {
        return Ok(None);
    }
    Ok(Some(encode(&decode(text.as_bytes())?)))
}

fn is_canonical(bytes: &[u8]) -> bool {
    if !bytes.len().is_multiple_of(4) {
        return false;
    }
    let padding = bytes.iter().rev().take(2).take_while(|byte| **byte == b'=').count();
    let letters = &bytes[..bytes.len() - padding];
    let spare = match padding {
        0 => 0,
        1 => 3,
        _ => 15,
    };
    letters.iter().all(|byte| VALUES[*byte as usize] != 255)
        && letters.last().is_none_or(|last| VALUES[*last as usize] & spare == 0)
}

/// The bytes; the error is the offset that Go reports.
pub fn decode(text: &[u8]) -> Result<Vec<u8>, usize> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 3);
    let mut at = 0;
    loop {
        let mut group = [0u8; 4];
        let mut count = 0;
        while count < 4 {
            let Some(byte) = text.get(at) else {
                return if count == 0 { Ok(out) } else { Err(at - count) };
            };
            at += 1;
            match VALUES[*byte as usize] {
                255 if matches!(byte, b'\r' | b'\n') => {}
                255 if *byte == b'=' => {
                    end_of_padding(text, at, count)?;
                    append(&mut out, group, count);
                    return Ok(out);
                }
                255 => return Err(at - 1),
                value => {
                    group[count] = value;
                    count += 1;
                }
            }
        }
        append(&mut out, group, 4);
    }
}

/// Checks what stands behind the first padding character of a group of `count` letters.
fn end_of_padding(text: &[u8], mut at: usize, count: usize) -> Result<(), usize> {
    let skip_breaks = |mut at: usize| {
        while matches!(text.get(at), Some(b'\r' | b'\n')) {
            at += 1;
        }
        at
    };
    if count < 2 {
        return Err(at - 1);
    }
    if count == 2 {
        at = skip_breaks(at);
        match text.get(at) {
            None => return Err(text.len()),
            Some(b'=') => at += 1,
            Some(_) => return Err(at - 1),
        }
    }
    at = skip_breaks(at);
    if at < text.len() { Err(at) } else { Ok(()) }
}

fn append(out: &mut Vec<u8>, group: [u8; 4], count: usize) {
    let bits = group.iter().fold(0u32, |bits, value| bits << 6 | u32::from(*value));
    let bytes = bits.to_be_bytes();
    out.extend_from_slice(&bytes[1..count]);
}

pub fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            if place <= chunk.len() {
                out.push(char::from(LETTERS[(bits >> (18 - 6 * place)) as usize & 63]));
            } else {
                out.push('=');
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_and_written() {
        for (text, bytes) in [("", &b""[..]), ("Zg==", b"f"), ("Zm8=", b"fo"), ("Zm9v", b"foo"), ("Zm9vYg==", b"foob")]
        {
            assert_eq!(decode(text.as_bytes()).unwrap(), bytes);
            assert_eq!(encode(bytes), text);
            assert_eq!(canonical(text), Ok(None));
        }
        assert_eq!(canonical("Zm9v\nYh==\n"), Ok(Some("Zm9vYg==".to_owned())));
    }

    #[test]
    fn offsets_are_those_of_go() {
        for (text, at) in
            [("Bad_Value!", 3), ("a", 0), ("ab", 0), ("abc", 0), ("ab=", 3), ("ab=c", 2), ("=", 0), ("Zg==x", 4)]
        {
            assert_eq!(canonical(text), Err(at), "{text}");
        }
    }
}
