import { inspect } from "node:util";
import { expect, it } from "vitest";
import { storeError } from "./failures.js";

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
