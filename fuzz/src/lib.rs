//! What holds for any input: nothing panics, nothing takes forever, and canonical forms stay as they are.
//!
//! Each body takes bytes and panics where a property does not hold. `fuzz_targets` hands them to libFuzzer; a test of
//! the workspace runs them over [`TARGETS`] with seeded bytes, so that they hold on every change.

pub mod admission;
pub mod codec;
pub mod custom;
pub mod documents;
pub mod owners;
pub mod patches;
pub mod reviews;
pub mod rules;
pub mod schemas;
pub mod streams;
pub mod texts;

/// Takes any bytes, and panics where a property does not hold.
pub type Body = fn(&[u8]);

/// Every body by its target's name, with inputs that it is worth starting from.
pub const TARGETS: &[(&str, Body, &[&[u8]])] = &[
    ("json", codec::json, &[br#"{"a":[1,-0.5e3,"\u00e9\ud83d\ude00",null],"a":true}"#, b"[[[[", b"1e400"]),
    ("decode", codec::decoding, &[]),
    ("yaml", codec::yaml, &[b"a: &x [1, ~]\nb: *x\n<<: {c: |-\n  text\n}", b"? - a\n: !!str 1", b"- 0x1f\n- .inf\n"]),
    ("protobuf", codec::protobuf, &[b"\0\0k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x06\x0a\x04\x0a\x02ab\x1a\0\x22\0"]),
    ("transcode", codec::transcoding, &[]),
    ("json_patch", patches::json_patch, &[]),
    ("merge_patch", patches::merge_patch, &[]),
    ("strategic_patch", patches::strategic, &[]),
    ("managed", owners::managed, &[APPLIED_TWICE]),
    ("selectors", texts::selectors, &[b"a in (b,c),!d,e=f,g!=h,i>1,j notin ()", b"metadata.name=a\\,b,x!=y"]),
    ("quantities", texts::quantities, &[b"1.5Gi,-3e-9,0.1m,1E", b"99999999999999999999Ei,1n"]),
    ("times", texts::times, &[b"2024-02-29T23:59:60.123456789+01:00", b"-1h2.5m3ns", b"0000-00-00T00:00:00Z"]),
    (
        "expressions",
        texts::expressions,
        &[
            b"x.a.all(e, e.b > 1) && has(x.c) ? [1, ?x.?d] : {'k': -2u}['k']",
            b"cel.bind(v, x.map(e, e + 'a'), v.sortBy(s, s)[0])",
        ],
    ),
    ("custom_rules", custom::rules, &[CUSTOM_LIST, CUSTOM_TEXTS]),
    ("kinds", rules::kinds, &[]),
    ("custom_resources", schemas::custom_resources, &[]),
    ("conversion_reviews", reviews::answers, &[REVIEW, CONVERTED]),
    ("admission_reviews", admission::answers, &[ADMITTED, PATCH]),
    ("spdy", streams::spdy, &[FRAMES, b"\0\0\0\x01\0\0\0\x01a\0\0\0\x02bc"]),
];

/// A class with an empty list, updated by one and applied by another.
const APPLIED_TWICE: &[u8] =
    b"\xfd\x00\xf4\xff\xfb\xff\x00&\xf9\x0b&uid\x00\xf4?\xef11111\x99\x98\x99\x99\x99\x99\x99\x99\x99\x99\x99\x991111111131\xff\xff\xff\xff\xf6\xff\xff\xffFFFFF627&\xfb";

/// A list of objects by their names, with rules on them and on what they replace.
const CUSTOM_LIST: &[u8] = br#"{"schema":{"type":"object","properties":{"l":{"type":"array","maxItems":9,
"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],"items":{"type":"object","properties":{"name":
{"type":"string"},"v":{"x-kubernetes-int-or-string":true}},"x-kubernetes-validations":[{"rule":"self.v == oldSelf.v"}]}}},
"x-kubernetes-validations":[{"rule":"self.l.all(x, type(x.v) == int ? x.v > 1 : x.v.size() > 0)","fieldPath":".l",
"messageExpression":"'%s'.format([self.l.map(x, x.name)])"},{"rule":"oldSelf.?l.hasValue()","optionalOldSelf":true}]},
"object":{"l":[{"name":"a","v":1},{"name":"b","v":"x"}]},"old":{"l":[{"name":"b","v":2}]}}"#;

/// Texts of all formats.
const CUSTOM_TEXTS: &[u8] = br#"{"schema":{"type":"object","properties":{"d":{"type":"string","format":"date-time"},"e":
{"type":"string","format":"duration","nullable":true},"b":{"type":"string","format":"byte"},"m":{"type":"object",
"additionalProperties":{"type":"string","x-kubernetes-validations":[{"rule":"self < 'x'"}]}},"x-y":{"type":"number"}},
"x-kubernetes-validations":[{"rule":"self.d > timestamp(0) && self.b == b'a' && self.x__dash__y < 1.5 && 'k' in self.m"}]},
"object":{"d":"2026-01-02T03:04:05Z","e":"1h","b":"YQ==","m":{"k":"v"},"x-y":1},"old":{"m":{"k":"y"}}}"#;

/// The answer of a webhook that has converted an object.
const REVIEW: &[u8] = br#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{"uid":"1-2","result":
{"status":"Success"},"convertedObjects":[{"apiVersion":"example.com/v1","kind":"App","metadata":{"name":"a","namespace":"b",
"uid":"c","labels":{"d":"e"},"annotations":{"f":"g"}},"spec":{}}]}}"#;

/// The answer of a webhook that refuses, and warns.
const ADMITTED: &[u8] = br#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"1-2","allowed":false,
"status":{"code":451,"reason":"Odd","message":"no","details":{"causes":[{"field":"f"}],"retryAfterSeconds":3}},"warnings":["w"],
"auditAnnotations":{"k":"v"},"patchType":"JSONPatch","patch":"W10="}}"#;

/// A patch of a webhook.
const PATCH: &[u8] =
    br#"[{"op":"add","path":"/data","value":{"a":"b"}},{"op":"copy","from":"/data","path":"/metadata/labels"},
{"op":"remove","path":"/metadata/name"},{"op":"test","path":"/kind","value":"ConfigMap"}]"#;

/// A stream that is opened and closed, and a ping.
const FRAMES: &[u8] = b"\x80\x03\0\x01\x01\0\0\x12\0\0\0\x01\0\0\0\0\0\0\x78\xbb\xe3\xc6\xa7\xc2\x62\x60\
\x80\x03\0\x06\0\0\0\x04\0\0\0\x01\0\0\0\x01\x01\0\0\x02hi\x80\x03\0\x03\0\0\0\x08\0\0\0\x01\0\0\0\x05";

/// The object alone.
const CONVERTED: &[u8] =
    br#"{"apiVersion":"example.com/v1","kind":"App","metadata":{"name":"a","namespace":"b","uid":"c",
"generation":7,"labels":{"d":"e","h":null},"annotations":{"f":"g"}},"spec":{"a":[1.5,null]}}"#;
