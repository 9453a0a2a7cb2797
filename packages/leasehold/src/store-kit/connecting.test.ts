import { describe, expect, it } from "vitest";
import { connectionReason, damagedCertificate, serverProblem, wasNotSent } from "./connecting.js";

const of = (code: string, more: object = {}, message = "failed") =>
  Object.assign(new Error(message), { code, ...more });
const fetchFailed = (cause: Error) => new TypeError("fetch failed", { cause });

describe("a request", () => {
  const connect = { syscall: "connect" };
  it.each([
    ["a refused connection", of("ECONNREFUSED"), true],
    ["an unknown host", of("ENOTFOUND"), true],
    ["an unreachable host while connecting", of("EHOSTUNREACH", connect), true],
    ["an unreachable host later", of("EHOSTUNREACH", { syscall: "read" }), false],
    ["a reset", of("ECONNRESET", { syscall: "read" }), false],
    ["the end of the socket", of("UND_ERR_SOCKET"), false],
    ["a server without TLS", of("ERR_SSL_WRONG_VERSION_NUMBER"), true],
    ["an untrusted certificate", of("DEPTH_ZERO_SELF_SIGNED_CERT"), true],
    [
      "a reset of the handshake",
      of("ECONNRESET", {}, "Client network socket disconnected before secure TLS connection"),
      true,
    ],
    ["a port that fetch does not use", new Error("bad port"), true],
    [
      "several addresses that time out",
      new AggregateError([of("ETIMEDOUT", connect), of("ENETUNREACH", connect)]),
      true,
    ],
    [
      "several errors of which one is a reset",
      new AggregateError([of("ETIMEDOUT", connect), of("ECONNRESET")]),
      false,
    ],
    ["several errors of which one is none", new AggregateError([null]), false],
    ["a message about a port", new Error("the proxy says: bad port"), false],
    ["a message about ports", new Error("bad ports"), false],
  ])("that fails with %s was not sent: %s", (_, cause, notSent) => {
    expect(wasNotSent(fetchFailed(cause))).toBe(notSent);
    expect(wasNotSent(cause)).toBe(notSent);
  });

  it("that fails without a cause may have been sent, as in a browser", () => {
    expect(wasNotSent(new TypeError("Failed to fetch"))).toBe(false);
    expect(wasNotSent("thrown")).toBe(false);
  });
});

it.each([
  ["SELF_SIGNED_CERT_IN_CHAIN", "its certificate is not trusted", "set ?cacert="],
  ["ERR_TLS_CERT_ALTNAME_INVALID", "its certificate is not for the host", "name a host of the"],
  ["CERT_HAS_EXPIRED", "its certificate has expired, or that of its authority", "renew it"],
  ["CERT_NOT_YET_VALID", "its certificate is not valid yet, or that of", "correct the clock"],
  ["INVALID_PURPOSE", "its certificate is not one of a server, or that of an", "give the server a"],
  ["INVALID_CA", "the certificate of an authority may not sign others", "let the server send"],
  ["PATH_LENGTH_EXCEEDED", "the certificate of an authority may not sign", "let the server send"],
  ["UNSPECIFIED", "its certificate is not trusted", "set ?cacert="],
])("a certificate with %s has its own remedy", (code, problem, remedy) => {
  const found = serverProblem(fetchFailed(of(code)), { authority: "set ?cacert=" });
  expect(found?.startsWith(problem)).toBe(true);
  expect(found).toContain(`(${code}); ${remedy}`);
});

it("a certificate is blamed only where it is the problem", () => {
  const expired = serverProblem(fetchFailed(of("DEPTH_ZERO_SELF_SIGNED_CERT")));
  expect(expired).toMatch(
    /^its certificate is not trusted \(DEPTH_ZERO_\w+\); name the file of its authority by \?cacert=/,
  );
  expect(serverProblem(fetchFailed(of("ECONNRESET")))).toBeNull();
  expect(serverProblem(undefined)).toBeNull();
});

it("a server that asks for a certificate of the client is named, with what to do about it", () => {
  const code = "ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED";
  const asks = `it asks for a certificate of the client that it trusts (${code})`;
  const remedies = { authority: "set ?cacert=" };
  expect(serverProblem(of(code), remedies)).toBe(asks);
  expect(serverProblem(of(code), { ...remedies, client: "set ?cert=" })).toBe(
    `${asks}; set ?cert=`,
  );
});

it.each([
  ["https://a:1", 0, "; if it asks for a certificate of the client, name one by ?cert= and ?key="],
  ["https://a:1", 9, "(UND_ERR_SOCKET)"],
  ["http://a:1", 0, "(UND_ERR_SOCKET)"],
])("the end of a connection to %s that had %i bytes names what to do", (origin, bytesRead, end) => {
  const ended = of("UND_ERR_SOCKET", { socket: { bytesRead } }, "other side closed");
  const reason = connectionReason(origin, fetchFailed(ended));
  expect(reason.startsWith(`${origin}: fetch failed: other side closed`)).toBe(true);
  expect(reason.replace(/ of the URL, which .*$/, "").endsWith(end)).toBe(true);
});

describe("a certificate in PEM", () => {
  /** Reads whatever has a body, as OpenSSL does. */
  class Readable {
    constructor(pem: string) {
      const isWhole = /^-----BEGIN [A-Z0-9 ]+-----\n[a-z]+\n-----END [A-Z0-9 ]+-----$/.test(pem);
      if (!isWhole) throw new Error("not in PEM");
    }
  }
  const one = "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----";
  const key = "-----BEGIN PRIVATE KEY-----\n";
  it.each([
    ["one", one, null],
    ["two", `${one}\n${one}\n`, null],
    ["two with comments and a key", `# own\n${one}\n# other\n${one}\n${key}`, null],
    ["a trusted one", one.replaceAll("CERTIFICATE", "TRUSTED CERTIFICATE"), null],
    ["two without a line break between them", `${one}${one}`, 1],
    ["one behind a space", ` ${one}`, 1],
    ["one behind a label", `ca: ${one}`, 1],
    ["a second one behind a space", `${one}\n ${one}`, 2],
    ["a second one whose first line has four dashes", `${one}\n${one.slice(1)}`, 2],
    ["a second one without its first line", `${one}\n${one.slice(one.indexOf("\n") + 1)}`, 2],
    ["one without its last line", one.slice(0, -26), 1],
    ["a second one without its last line", `${one}\n${one.slice(0, -26)}`, 2],
    ["one with another body", one.replace("abc", "***"), 1],
  ])("%s is whole, or its number is said", (_, text, damaged) => {
    expect(damagedCertificate(text, Readable)).toBe(damaged);
  });
});
