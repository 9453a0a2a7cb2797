import { inspect } from "node:util";
import { expect, it } from "vitest";
import { connectError, storeError } from "./failures.js";

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
