import { inspect } from "node:util";
import { expect, it } from "vitest";
import { breaksConnection, connectError, storeError } from "./failures.js";

it("shows of the server's error only what the server reported", () => {
  const reported = Object.assign(new Error("no PostgreSQL user name specified"), {
    severity: "FATAL",
    code: "28000",
    detail: undefined,
    position: undefined,
  });
  const error = storeError(reported, false);
  expect(error).toMatchObject({ code: "STORE_MISCONFIGURED", cause: { severity: "FATAL" } });
  expect(inspect(error)).not.toContain("undefined");
});

const errorOf = (code: string, severity: string) =>
  Object.assign(new Error("refused"), { code, severity });

it.each(["22023", "22P02", "42704"])(
  "blames the URL for %s while it connects, whatever the language of the severity",
  (code) => {
    for (const severity of ["FATAL", "SCHWERWIEGEND"]) {
      const error = connectError(errorOf(code, severity));
      expect(error).toMatchObject({ code: "STORE_MISCONFIGURED", retryable: false });
      expect(error.message).toContain("?options=");
    }
  },
);

it.each(["22021", "22P02", "23514", "54000"])(
  "blames the request for %s of a statement, whether or not it was rolled back",
  (code) => {
    for (const sent of [true, false]) {
      const error = storeError(errorOf(code, "ERROR"), sent);
      expect(error).toMatchObject({ code: "INVALID_OPTION", path: "the request", outcome: "none" });
      expect(error.message).not.toContain("?options=");
    }
  },
);

it.each([
  ["08006", true, "connection_failure"],
  ["57P01", true, "admin_shutdown"],
  ["25P03", true, "idle_in_transaction_session_timeout"],
  ["25P04", true, "transaction_timeout, which ends the session too"],
  ["25006", true, "read_only_sql_transaction"],
  ["XX000", true, "internal_error"],
  ["25P02", false, "in_failed_sql_transaction"],
  ["57014", false, "query_canceled"],
  ["23505", false, "unique_violation"],
])("tells whether SQLSTATE %s breaks its connection: %s, %s", (code, isBroken) => {
  const reported = Object.assign(new Error("reported"), { severity: "ERROR", code });
  expect(breaksConnection(reported)).toBe(isBroken);
});

it.each([
  [
    "canceling statement due to statement timeout",
    "57014",
    /; raise \?statement_timeout of the URL/,
  ],
  ["canceling statement due to lock timeout", "55P03", /; raise \?lock_timeout of the URL/],
  ["Query read timeout", undefined, /; raise \?query_timeout of the URL/],
  [
    "Client network socket disconnected before secure TLS connection was established",
    undefined,
    /; if the URL has \?sslnegotiation=direct, which needs PostgreSQL 17, remove it/,
  ],
])("names the parameter of the URL for %s", (message, code, remedy) => {
  const failure = Object.assign(new Error(message), code ? { code, severity: "ERROR" } : {});
  expect(storeError(failure, false)).toMatchObject({
    code: "STORE_UNAVAILABLE",
    message: expect.stringMatching(remedy) as string,
  });
  expect(storeError(failure, true).message).toMatch(remedy);
});

it("names no parameter for a statement that an administrator canceled", () => {
  const canceled = Object.assign(new Error("canceling statement due to user request"), {
    severity: "ERROR",
    code: "57014",
  });
  expect(storeError(canceled, false).message).not.toContain("?");
});
