/** Bytes as no HTTP client would send them. */
import { BOUNDS } from "leasehold/internal/wire";
import type { Chance } from "./chance.js";

export interface RawCase {
  /** What it is about, in words. */
  readonly what: string;
  /** Written one after the other, each after the one before has gone. */
  readonly pieces: readonly Uint8Array[];
  /**
   * answer: one comes, then the connection is cut; close: ours is half closed, the server must end it;
   * abort: cut as soon as all is written.
   */
  readonly end: "answer" | "close" | "abort";
}

const bytes = (text: string) => Buffer.from(text, "latin1");
const whole = (what: string, text: string, end: RawCase["end"] = "close"): RawCase => ({
  what,
  pieces: [bytes(text)],
  end,
});

const LOCK = JSON.stringify({ resource: "r/1", ownerId: "raw", ttlMs: 1_000 });

/** @param key whose tenant the requests are about */
export function rawCase(index: number, chance: Chance, key: string): RawCase {
  const kind = KINDS[index % KINDS.length]!;
  return kind(new Wire(key), chance, Math.floor(index / KINDS.length));
}

class Wire {
  readonly common: string;

  constructor(key: string) {
    this.common = `Host: localhost\r\nAuthorization: Bearer ${key}\r\n`;
  }

  get(target: string, more = ""): string {
    return `GET ${target} HTTP/1.1\r\n${this.common}${more}\r\n`;
  }

  post(target: string, body: string, more = ""): string {
    const length = `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n`;
    return `POST ${target} HTTP/1.1\r\n${this.common}${length}${more}\r\n${body}`;
  }

  /** The framing is the caller's. */
  framed(framing: string, rest: string, target = "/v1/locks/acquire"): string {
    const head = `POST ${target} HTTP/1.1\r\n${this.common}Content-Type: application/json\r\n`;
    return `${head}${framing}\r\n${rest}`;
  }
}

type Kind = (wire: Wire, chance: Chance, round: number) => RawCase;

const badFraming: Kind = (wire, chance) => {
  const line = chance.pick([
    "",
    "\r\n\r\n",
    "GET\r\n\r\n",
    "GET /healthz\r\n\r\n",
    "GET  /healthz  HTTP/1.1\r\n\r\n",
    "GET /healthz HTTP/1.0\r\n\r\n",
    "GET /healthz HTTP/2.0\r\n\r\n",
    "GET /healthz HTTP/9.9\r\n\r\n",
    "get /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
    "\0\0\0\0\r\n\r\n",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "GET healthz HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET * HTTP/1.1\r\nHost: a\r\n\r\n",
    "\x16\x03\x01\x02\0\x01\0",
    "GET http://other/healthz HTTP/1.1\r\nHost: a\r\n\r\n",
    "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /healthz HTTP/1.1\r\n\r\n",
    "TRACE / HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /healthz HTTP/1.1\nHost: a\n\n",
    "GET /healthz HTTP/1.1\r\n Host: a\r\n\r\n",
    "GET /\x00 HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /é HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /healthz HTTP/1.1\r\nHost: a b\r\n\r\n",
    "GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "GET /healthz HTTP/1.1\r\nHost: [::1\r\n\r\n",
    "GET /healthz HTTP/1.1\r\nHost:\r\n\r\n",
    "GET //// HTTP/1.1\r\nHost: a\r\n\r\n",
    `GET /${"x".repeat(chance.pick([100, 8_000, 16_300, 17_000]))} HTTP/1.1\r\nHost: a\r\n\r\n`,
    "GET /healthz HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    "GET /healthz HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AA\r\n\r\n",
    wire.get("/healthz", "Expect: 100-continue\r\n"),
    wire.post("/v1/locks/acquire", LOCK, `Expect: ${chance.pick(["100-continue", "200-ok"])}\r\n`),
  ]);
  return whole("framing of the head", line);
};

const wrongLength: Kind = (wire, chance) => {
  const value = chance.pick([
    "-1",
    "0",
    "1",
    `${LOCK.length - 1}`,
    `${LOCK.length + 1}`,
    "1e3",
    "0x10",
    "+5",
    "5 5",
    "5, 5",
    "",
    " ",
    "99999999999999999999",
    "9007199254740993",
    `${BOUNDS.bodyBytes + 1}`,
    "\u0665",
  ]);
  return whole("wrong Content-Length", wire.framed(`Content-Length: ${value}\r\n`, LOCK));
};

const twoFramings: Kind = (wire, chance) => {
  const chunked = chance.pick([
    "chunked",
    "Chunked",
    "chunked, identity",
    "identity",
    "gzip, chunked",
    "xchunked",
    " chunked",
  ]);
  const [a, b] = [`Content-Length: ${LOCK.length}\r\n`, `Transfer-Encoding: ${chunked}\r\n`];
  const framing = chance.pick([a + b, b + a, b + b, a + a, `${a}Content-Length: 3\r\n`, b]);
  const smuggled = wire.get("/v1/keys");
  return whole(
    "two framings",
    wire.framed(framing, chance.pick([LOCK, `0\r\n\r\n${smuggled}`, `5\r\nhello\r\n0\r\n\r\n`])),
  );
};

const chunks: Kind = (wire, chance) => {
  const size = LOCK.length.toString(16);
  const body = chance.pick([
    `${size}\r\n${LOCK}\r\n0\r\n\r\n`,
    `${size};a=b;c="d"\r\n${LOCK}\r\n0\r\n\r\n`,
    `${size}\n${LOCK}\n0\n\n`,
    `${size};${"x".repeat(chance.pick([100, 16_000, 20_000]))}\r\n${LOCK}\r\n0\r\n\r\n`,
    `-1\r\n${LOCK}\r\n`,
    `ffffffffffffffff1\r\n${LOCK}`,
    `zz\r\n${LOCK}\r\n0\r\n\r\n`,
    `0${size}\r\n${LOCK}\r\n0\r\n\r\n`,
    `${size}\r\n${LOCK}0\r\n\r\n`,
    `0\r\nX-Trailer: 1\r\n\r\n`,
    `0\r\n${"a: b\r\n".repeat(3_000)}\r\n`,
    `${LOCK.replaceAll(/./g, "1\r\n$&\r\n")}0\r\n\r\n`,
    `${size}\r\n${LOCK}\r\n`,
  ]);
  return whole("chunks", wire.framed("Transfer-Encoding: chunked\r\n", body));
};

const headers: Kind = (wire, chance) => {
  const odd = String.fromCharCode(chance.below(256));
  const more = chance.pick([
    `x${odd}y: 1\r\n`,
    `x: a${odd}b\r\n`,
    `${odd}: 1\r\n`,
    `x : 1\r\n`,
    ": 1\r\n",
    "x\r\n",
    "x: 1\r\n 2\r\n",
    `x-${"y".repeat(chance.pick([1_000, 16_000, 70_000]))}: 1\r\n`,
    `x: ${"y".repeat(chance.pick([1_000, 16_000, 70_000]))}\r\n`,
    Array.from({ length: chance.pick([50, 500, 1_990, 2_100]) }, (_, n) => `x${n}: 1\r\n`).join(""),
    "Authorization: Bearer other\r\n",
    "Connection: keep-alive, close, upgrade\r\nKeep-Alive: timeout=0\r\n",
    "Content-Length: 5\r\n",
    "Cookie: a=b\r\nCookie: __proto__=c\r\n__proto__: x\r\nconstructor: y\r\n",
  ]);
  return whole("headers", wire.get("/v1/locks", more));
};

/** Round by round, cut at each offset of each request. */
const aborted: Kind = (wire, _, round) => {
  const requests = [
    wire.get("/v1/locks"),
    wire.post("/v1/locks/acquire", LOCK),
    wire.post("/api/tasks", '{"task_data":1,"queue":"raw"}'),
    wire.post("/api/tasks/next", '{"processor":"raw","queues":["none"],"waitMs":5000}'),
    wire.get("/v1/events", "Accept: text/event-stream\r\n"),
    wire.framed(
      "Transfer-Encoding: chunked\r\n",
      `${LOCK.length.toString(16)}\r\n${LOCK}\r\n0\r\n\r\n`,
    ),
  ];
  const total = requests.reduce((sum, request) => sum + request.length + 1, 0);
  let offset = round % total;
  const request = requests.find((each) => {
    if (offset <= each.length) return true;
    offset -= each.length + 1;
    return false;
  })!;
  const what = `cut at byte ${offset} of ${request.split(" ", 2).join(" ")}`;
  return { what, pieces: [bytes(request.slice(0, offset))], end: "abort" };
};

const pipelined: Kind = (wire, chance) => {
  const requests = Array.from({ length: 2 + chance.below(20) }, () =>
    chance.pick([
      wire.get("/healthz"),
      wire.get("/v1/locks"),
      wire.post("/v1/locks/acquire", LOCK),
      wire.get("/none"),
    ]),
  );
  if (chance.often(30)) requests.splice(chance.below(requests.length), 0, "nonsense\r\n\r\n");
  return whole(
    "one after the other without waiting",
    requests.join(""),
    chance.pick(["close", "abort", "answer"]),
  );
};

const old: Kind = (_, chance) =>
  whole(
    "HTTP/0.9",
    chance.pick([
      "GET /healthz\r\n",
      "GET /\n",
      "GET /healthz",
      "\n",
      "HELO a\r\n",
      "*1\r\n$4\r\nPING\r\n",
    ]),
  );

const drip: Kind = (wire, chance) => {
  const text = chance.pick([wire.get("/healthz"), wire.post("/v1/locks/acquire", LOCK)]);
  const step = chance.pick([7, 13, 31]);
  const pieces: Uint8Array[] = [];
  for (let at = 0; at < text.length; at += step) pieces.push(bytes(text.slice(at, at + step)));
  return {
    what: "a slow drip",
    pieces: pieces.slice(0, 60),
    end: chance.pick(["answer", "close", "abort"]),
  };
};

const halfClosed: Kind = (wire, chance) => {
  const text = chance.pick([wire.post("/v1/locks/acquire", LOCK), wire.get("/v1/locks")]);
  const cut = chance.often(50) ? text : text.slice(0, chance.below(text.length));
  return whole("half closed", cut);
};

const bodyLimit: Kind = (wire, chance) => {
  const padded = LOCK + " ".repeat(BOUNDS.bodyBytes + chance.below(3) - 1 - LOCK.length);
  if (chance.often(50))
    return whole("body about its limit", wire.post("/v1/locks/acquire", padded), "answer");
  const chunk = `${padded.length.toString(16)}\r\n${padded}\r\n0\r\n\r\n`;
  return whole(
    "body about its limit, in a chunk",
    wire.framed("Transfer-Encoding: chunked\r\n", chunk),
    "answer",
  );
};

const noise: Kind = (wire, chance) => {
  const text = Buffer.from(wire.post("/v1/locks/acquire", LOCK), "latin1");
  for (let left = 1 + chance.below(4); left > 0; left -= 1) {
    text[chance.below(text.length)] = chance.below(256);
  }
  return { what: "bytes changed", pieces: [text], end: "close" };
};

const KINDS: readonly Kind[] = [
  badFraming,
  wrongLength,
  twoFramings,
  chunks,
  headers,
  aborted,
  pipelined,
  aborted,
  old,
  drip,
  halfClosed,
  noise,
  noise,
  bodyLimit,
];
