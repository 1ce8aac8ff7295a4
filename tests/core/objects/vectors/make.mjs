// Golden vectors for canonical JSON and the five hashes, made without any of the code under test.
//
//   node make.mjs > vectors.json
//
// A value is written as tagged JSON, so that no reader can blur what is tested: integers and floats
// are text ({"i": "12"}, {"f": "3ff…"} with the eight bytes of the double in hex), everything else
// is {"n": null}, {"b": true}, {"s": "text"}, {"l": [values]}, {"m": [[key, value], …]}.
// Maps keep the order given here, which is never the canonical one.

import { createHash } from "node:crypto";

class Float {
  constructor(number) {
    this.number = number;
  }
}
const float = (number) => new Float(number);
const map = (...entries) => new Map(entries);
const fields = (record) => new Map(Object.entries(record));

// --- canonical form: RFC 8785, with integers of any size as BigInt ---

function canonical(value) {
  if (value === null) return "null";
  if (typeof value === "boolean" || typeof value === "bigint") return String(value);
  if (typeof value === "string") return JSON.stringify(value);
  if (value instanceof Float) return JSON.stringify(value.number);
  if (Array.isArray(value)) return "[" + value.map(canonical).join(",") + "]";
  // Array.prototype.sort without a comparer orders texts by UTF-16 code unit.
  const keys = [...value.keys()].sort();
  return "{" + keys.map((key) => JSON.stringify(key) + ":" + canonical(value.get(key))).join(",") + "}";
}

// --- hashes ---

const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");
const hashOf = (value) => sha256(Buffer.from(canonical(value), "utf8"));

const OUTSIDE_METADATA = [
  "xt/id", "type", "source", "identity_hash",
  "content", "file_hash", "content_hash", "metadata_hash", "object_hash",
];

function seal({ id, type, source = null, content, metadata, fileHash }) {
  const identity = source === null
    ? hashOf(fields({ "xt/id": id, type }))
    : hashOf(fields({ source, type }));
  const contentHash = content === null ? null : sha256(Buffer.from(content, "utf8"));
  for (const name of metadata.keys()) {
    if (OUTSIDE_METADATA.includes(name)) throw new Error(`${name} is no metadata`);
  }
  const metadataHash = hashOf(metadata);
  const objectHash = hashOf(fields({
    metadata_hash: metadataHash,
    file_hash: fileHash ?? null,
    content_hash: contentHash,
  }));
  const document = new Map([
    ["object_hash", objectHash],
    ["metadata_hash", metadataHash],
    ["content_hash", contentHash],
    ...metadata,
    ["content", content],
    ["identity_hash", identity],
    ["source", source],
    ["type", type],
    ["xt/id", source === null ? id : identity],
  ]);
  if (source !== null) document.set("file_hash", fileHash);
  return document;
}

// --- values ---

const doubles = [
  0, -0, 1, -1, 0.1, 0.5, 1.5, 100, 1e20, 1e21, 1e22, 123456789012345680000, 1.2345678901234568e21,
  1e-5, 1e-6, 1e-7, 1.5e-7, 9.5e-7, 0.000001234, 5e-324, 2.2250738585072014e-308,
  1.7976931348623157e308, 9007199254740991, 9007199254740992, 9007199254740994, 4.5, 0.002, 4.35,
  1 / 3, 2 / 3, 333333333.33333329, 1e23, 9.999999999999997e22, 295147905179352830000,
  999999999999999900000, 1424953923781206.2, -1.0e-10, 6.62607015e-34, -123.456,
];

let nested = "the bottom";
for (let depth = 0; depth < 120; depth += 1) {
  nested = depth % 2 ? [nested] : map(["ü", nested], ["a", null]);
}

const values = {
  null: null,
  true: true,
  false: false,
  "empty text": "",
  "empty list": [],
  "empty map": map(),
  "empty things inside": [map(), [], "", map(["", map()]), [[]]],
  "text with every escape": "\u0000\u0001\b\t\n\u000b\f\r\u000e\u001f \"\\/\u007f\u0080\u2028\u2029",
  "text beyond ASCII": "é € 日本語 \ue000 \ufeff \uffff 😀 𝄞",
  "decomposed is not composed": ["e\u0301", "\u00e9"],
  "keys by UTF-16 code unit": map(
    ["\ufb33", "Hebrew"], ["😀", "beyond the BMP"], ["\u20ac", "euro"], ["\r", "return"],
    ["1", "one"], ["\u0080", "control"], ["ö", "umlaut"], ["\uffff", "last"], ["", "empty"],
  ),
  "keys that are numbers": map(["10", 10n], ["9", 9n], ["-1", -1n], ["2", 2n]),
  "keys in every level": map(
    ["z", [map(["b", 1n], ["a", map(["é", 1n], ["e", 2n], ["𝄞", 3n], ["\uf000", 4n])])]],
    ["A", true], ["a", false], ["_", null],
  ),
  "deep nesting": nested,
  "integers to 2^53": [0n, 1n, -1n, 9007199254740991n, -9007199254740991n],
  "integers beyond 2^53": [9007199254740992n, 9007199254740993n, -9007199254740993n],
  "integers at 2^63 and 2^64": [
    9223372036854775807n, 9223372036854775808n, -9223372036854775808n, -9223372036854775809n,
    18446744073709551615n, 18446744073709551616n,
  ],
  "integers beyond 2^64": [10n ** 21n, 10n ** 30n + 7n, -(2n ** 200n), 2n ** 1024n],
  "an integer of 5,000 digits": 10n ** 5000n - 3n,
  "a large integer inside": map(["id", 123456789012345678901234567890n], ["b", [map(["é", 2n ** 64n])]]),
  floats: doubles.map(float),
  "mixed list": [1n, float(1), "1", true, null, [1n], map(["1", 1n])],
};
for (const number of doubles) {
  values[`float ${Object.is(number, -0) ? "-0" : number}`] = float(number);
}

// --- objects ---

const source = (path, filesystem = "host-1") =>
  fields({ path, filesystemId: filesystem, type: "filesystem" });
const fileMetadata = (extension, count) => fields({ file_type: extension, char_count: BigInt(count) });
const textFile = (path, extension, text, filesystem) => seal({
  type: "file",
  source: source(path, filesystem),
  content: text,
  metadata: fileMetadata(extension, [...text].length),
  fileHash: sha256(Buffer.from(text, "utf8")),
});
const turn = fields({
  user: "Wo ist \"das\"?\n",
  toolcall_ids: ["call_1", "call_2"],
  assistant: [
    fields({ type: "text", text: "Here 😀" }),
    fields({ type: "toolCall", id: "call_0", arguments: fields({ n: 2n ** 70n, x: float(0.25) }) }),
  ],
  assistant_meta: fields({
    usage: fields({ input: 12n, output: 3n, cost: float(0.0021), cached: float(0) }),
    timestamp: 1760000000000n, stopReason: "toolUse", provider: "p", model: "m", api: "a",
  }),
});
const bareTurn = fields({
  user: "", assistant: [], toolcall_ids: ["call_3"], assistant_meta: map(),
});
const chat = (turns, refs) => seal({
  id: "chat:s1", type: "chat", content: null,
  metadata: fields({
    turns, turn_count: BigInt(turns.length), toolcall_refs: refs, session_ref: "session:s1",
  }),
});
const session = (index, pool, active, pinned) => seal({
  id: "session:s1", type: "session", content: null,
  metadata: fields({
    session_id: "s1", chat_ref: "chat:s1", system_prompt_ref: "system_prompt:s1",
    session_index: index, metadata_pool: pool, active_set: active, pinned_set: pinned,
  }),
});
const prompt = (text, id = "s1") => seal({
  id: `system_prompt:${id}`, type: "system_prompt", content: text, metadata: map(),
});
const toolcall = (id, content, extra = {}) => seal({
  id, type: "toolcall", content,
  metadata: fields({
    tool: "grep", status: "ok", chat_ref: "chat:s1",
    args: fields({ pattern: "ü.*", limit: 18446744073709551616n, context: float(1.5), deep: [map()] }),
    ...extra,
  }),
});

const gone = "was here\n";
const binary = Buffer.from([0xff, 0xfe, 0x00, 0x80]);
const objects = {
  file: textFile("/home/a/main.ts", "ts", "const a = 1;\n"),
  "file, empty": textFile("/empty.md", "md", ""),
  "file, code points beyond the BMP": textFile("/π/😀.TXT", "TXT", "a😀é\u0301𝄞"),
  "file without extension": textFile("/etc/.profile", "", "x"),
  "file on another filesystem": textFile("/home/a/main.ts", "ts", "const a = 1;\n", "container-9"),
  "file, stub": seal({
    type: "file", source: source("/home/a/seen.py"), content: null,
    metadata: fileMetadata("py", 0), fileHash: null,
  }),
  "file, deleted": seal({
    type: "file", source: source("/home/a/gone.txt"), content: null,
    metadata: fileMetadata("txt", 0), fileHash: sha256(Buffer.from(gone, "utf8")),
  }),
  "file, no text": seal({
    type: "file", source: source("/home/a/logo.png"), content: null,
    metadata: fileMetadata("png", 0), fileHash: sha256(binary),
  }),
  toolcall: toolcall("call_1", "a.ts:1: über\n"),
  "toolcall with everything": toolcall("s1:4:call_0", "", {
    status: "fail", args_display: "ü.* in src", file_refs: ["b".repeat(64), "a".repeat(64)],
  }),
  "toolcall without output": toolcall("call_2", null, { args: map(), file_refs: [] }),
  chat: chat([turn, bareTurn], ["call_1", "call_2", "call_3"]),
  "chat, empty": chat([], []),
  system_prompt: prompt("You are careful.\n"),
  "system_prompt, empty": prompt("", "ses-ü"),
  session: session(["b", "a", "c"], ["b", "a"], ["a"], ["b", "a"]),
  "session, empty": session([], [], [], []),
};

// --- output ---

function tagged(value) {
  if (value === null) return { n: null };
  if (typeof value === "boolean") return { b: value };
  if (typeof value === "bigint") return { i: String(value) };
  if (typeof value === "string") return { s: value };
  if (Array.isArray(value)) return { l: value.map(tagged) };
  if (value instanceof Float) {
    const bytes = Buffer.alloc(8);
    bytes.writeDoubleBE(value.number);
    return { f: bytes.toString("hex") };
  }
  return { m: [...value].map(([key, item]) => [key, tagged(item)]) };
}

const entry = (value) => ({ value: tagged(value), canonical: canonical(value), sha256: hashOf(value) });
const listed = (record, make) => Object.entries(record).map(([name, value]) => ({ name, ...make(value) }));
const vectors = {
  values: listed(values, entry),
  objects: listed(objects, (document) => ({ document: tagged(document), canonical: canonical(document) })),
  bytes: [Buffer.alloc(0), Buffer.from("abc"), binary].map((data) => ({
    hex: data.toString("hex"), file_hash: sha256(data),
  })),
};
const lines = (list) => "[\n" + list.map((each) => JSON.stringify(each)).join(",\n") + "\n]";
const parts = Object.entries(vectors).map(([name, list]) => JSON.stringify(name) + ": " + lines(list));
process.stdout.write("{\n" + parts.join(",\n") + "\n}\n");
