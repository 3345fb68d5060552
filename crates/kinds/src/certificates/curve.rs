//! Signatures on the curves P-224, P-256, P-384 and P-521, verified with large numbers: for the curves and digests that the
//! library for cryptography does not put together. Nothing here is secret, so that it may take what time it takes.

use num_bigint::BigUint;
use x509_parser::der_parser::der::parse_der_sequence;

/// A curve over a prime field: y² = x³ - 3x + offset.
pub struct Curve {
    prime: BigUint,
    offset: BigUint,
    order: BigUint,
    base: Point,
}

/// In Jacobian coordinates; none: the point at infinity.
type Point = Option<[BigUint; 3]>;

impl Curve {
    /// The curve of this name, where it is known.
    pub fn find(oid: &str) -> Option<Curve> {
        let found = CURVES.iter().find(|curve| curve.oid == oid)?;
        let number = |text: &str| BigUint::parse_bytes(text.as_bytes(), 16);
        Some(Curve {
            prime: number(found.prime)?,
            offset: number(found.offset)?,
            order: number(found.order)?,
            base: Some([number(found.base[0])?, number(found.base[1])?, 1u8.into()]),
        })
    }

    /// Whether the digest was signed by the owner of the key, which is a point written in full.
    pub fn verifies(&self, key: &[u8], digest: &[u8], signature: &[u8]) -> bool {
        self.verify(key, digest, signature).unwrap_or(false)
    }

    fn verify(&self, key: &[u8], digest: &[u8], signature: &[u8]) -> Option<bool> {
        let key = self.point(key)?;
        let (rest, sequence) = parse_der_sequence(signature).ok()?;
        let [left, right] = sequence.as_sequence().ok()?.as_slice() else { return None };
        let number = |object: &x509_parser::der_parser::der::DerObject<'_>| {
            let bytes = object.as_slice().ok()?;
            let is_negative = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
            let number = BigUint::from_bytes_be(bytes);
            (!is_negative && number != 0u8.into() && number < self.order).then_some(number)
        };
        let (left, right) = (number(left)?, number(right)?);
        let inverse = right.modpow(&(&self.order - 2u8), &self.order);
        let spare = (digest.len() * 8).saturating_sub(usize::try_from(self.order.bits()).ok()?);
        let digest = BigUint::from_bytes_be(digest) >> spare;
        let (first, second) = (&digest * &inverse % &self.order, &left * &inverse % &self.order);
        let [x, _, z] = self.sum(&first, &self.base, &second, &Some(key))?;
        let unit = z.modpow(&(&self.prime - 2u8), &self.prime);
        let x = x * &unit % &self.prime * &unit % &self.prime;
        Some(rest.is_empty() && x % &self.order == left)
    }

    /// A point of the curve from its two coordinates.
    fn point(&self, bytes: &[u8]) -> Option<[BigUint; 3]> {
        let size = usize::try_from(self.prime.bits().div_ceil(8)).ok()?;
        let (4, coordinates) = bytes.split_first().map(|(form, rest)| (*form, rest))? else { return None };
        if coordinates.len() != size * 2 {
            return None;
        }
        let (x, y) = coordinates.split_at(size);
        let (x, y) = (BigUint::from_bytes_be(x), BigUint::from_bytes_be(y));
        let right = (&x * &x * &x + (&self.prime - 3u8) * &x + &self.offset) % &self.prime;
        (x < self.prime && y < self.prime && &y * &y % &self.prime == right).then(|| [x, y, 1u8.into()])
    }

    /// The sum of two multiples, bit by bit for both at once.
    fn sum(&self, first: &BigUint, left: &Point, second: &BigUint, right: &Point) -> Point {
        let both = self.add(left, right);
        let mut sum = None;
        for bit in (0..first.bits().max(second.bits())).rev() {
            sum = self.double(&sum);
            match (first.bit(bit), second.bit(bit)) {
                (true, true) => sum = self.add(&sum, &both),
                (true, false) => sum = self.add(&sum, left),
                (false, true) => sum = self.add(&sum, right),
                (false, false) => {}
            }
        }
        sum
    }

    fn double(&self, point: &Point) -> Point {
        let [x, y, z] = point.as_ref()?;
        let prime = &self.prime;
        let square = y * y % prime;
        let slope_base = z * z % prime;
        let slope = self.less(x, &slope_base) * (x + &slope_base) % prime * 3u8 % prime;
        let middle = x * &square % prime * 4u8 % prime;
        let new_x = self.less(&(&slope * &slope % prime), &(&middle * 2u8 % prime));
        let new_y =
            self.less(&(slope * self.less(&middle, &new_x) % prime), &(&square * &square % prime * 8u8 % prime));
        Some([new_x, new_y, y * z * 2u8 % prime])
    }

    fn add(&self, left: &Point, right: &Point) -> Point {
        let (Some([x1, y1, z1]), Some([x2, y2, z2])) = (left, right) else {
            return left.clone().or_else(|| right.clone());
        };
        let prime = &self.prime;
        let (square1, square2) = (z1 * z1 % prime, z2 * z2 % prime);
        let (u1, u2) = (x1 * &square2 % prime, x2 * &square1 % prime);
        let (s1, s2) = (y1 * square2 % prime * z2 % prime, y2 * square1 % prime * z1 % prime);
        let (across, up) = (self.less(&u2, &u1), self.less(&s2, &s1));
        if across == 0u8.into() {
            return if up == 0u8.into() { self.double(left) } else { None };
        }
        let square = &across * &across % prime;
        let cube = &square * &across % prime;
        let middle = u1 * square % prime;
        let new_x = self.less(&self.less(&(&up * &up % prime), &cube), &(&middle * 2u8 % prime));
        let new_y = self.less(&(up * self.less(&middle, &new_x) % prime), &(s1 * cube % prime));
        Some([new_x, new_y, across * z1 % prime * z2 % prime])
    }

    /// The difference of two numbers of the field.
    fn less(&self, left: &BigUint, right: &BigUint) -> BigUint {
        (left + &self.prime - right) % &self.prime
    }
}

struct Constants {
    oid: &'static str,
    prime: &'static str,
    offset: &'static str,
    order: &'static str,
    base: [&'static str; 2],
}

const CURVES: [Constants; 4] = [
    Constants {
        oid: "1.3.132.0.33",
        prime: "ffffffffffffffffffffffffffffffff000000000000000000000001",
        offset: "b4050a850c04b3abf54132565044b0b7d7bfd8ba270b39432355ffb4",
        order: "ffffffffffffffffffffffffffff16a2e0b8f03e13dd29455c5c2a3d",
        base: [
            "b70e0cbd6bb4bf7f321390b94a03c1d356c21122343280d6115c1d21",
            "bd376388b5f723fb4c22dfe6cd4375a05a07476444d5819985007e34",
        ],
    },
    Constants {
        oid: "1.2.840.10045.3.1.7",
        prime: "ffffffff00000001000000000000000000000000ffffffffffffffffffffffff",
        offset: "5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604b",
        order: "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551",
        base: [
            "6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296",
            "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5",
        ],
    },
    Constants {
        oid: "1.3.132.0.34",
        prime: "fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffeffffffff0000000000000000ffffffff",
        offset: "b3312fa7e23ee7e4988e056be3f82d19181d9c6efe8141120314088f5013875ac656398d8a2ed19d2a85c8edd3ec2aef",
        order: "ffffffffffffffffffffffffffffffffffffffffffffffffc7634d81f4372ddf581a0db248b0a77aecec196accc52973",
        base: [
            "aa87ca22be8b05378eb1c71ef320ad746e1d3b628ba79b9859f741e082542a385502f25dbf55296c3a545e3872760ab7",
            "3617de4a96262c6f5d9e98bf9292dc29f8f41dbd289a147ce9da3113b5f0b8c00a60b1ce1d7e819d7a431d7c90ea0e5f",
        ],
    },
    Constants {
        oid: "1.3.132.0.35",
        prime: "1ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        offset: "51953eb9618e1c9a1f929a21a0b68540eea2da725b99b315f3b8b489918ef109e156193951ec7e937b1652c0bd3bb1bf073573df883d2c34f1ef451fd46b503f00",
        order: "1fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffa51868783bf2f966b7fcc0148f709a5d03bb5c9b8899c47aebb6fb71e91386409",
        base: [
            "c6858e06b70404e9cd9e3ecb662395b4429c648139053fb521f828af606b4d3dbaa14b5e77efe75928fe1dc127a2ffa8de3348b3c1856a429bf97e7e31c2e5bd66",
            "11839296a789a3bc0045c8a5fb42c7d1bd998f54449579b446817afbd17273e662c97ee72995ef42640c550b9013fad0761353c7086a272c24088be94769fd16650",
        ],
    },
];
