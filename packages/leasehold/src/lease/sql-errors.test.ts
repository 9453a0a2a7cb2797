import { expect, it } from "vitest";
import { sqlErrorOf } from "./sql-errors.js";

const refused = { code: "LH001", message: "older", detail: "{}" };
const inDriver = Object.assign(new Error(refused.message), { ...refused, severity: "ERROR" });

it("is found in the error of a driver, and in that of a library around it", () => {
  const inPrisma = (cause: object) =>
    Object.assign(new Error("Raw query failed"), {
      code: "P2010",
      meta: { driverAdapterError: { cause } },
    });
  const ofKind = { kind: "TableDoesNotExist", originalCode: "42P01", originalMessage: "no table" };
  expect(sqlErrorOf(inDriver)).toEqual(refused);
  expect(sqlErrorOf(new Error("Failed query", { cause: inDriver }))).toEqual(refused);
  expect(sqlErrorOf(inPrisma({ ...refused, severity: "ERROR" }))).toEqual(refused);
  expect(sqlErrorOf(inPrisma(ofKind))).toEqual({ code: "42P01", message: "no table" });
});

it("is none of Node's, nor of what is no error", () => {
  const broken = Object.assign(new Error("write EPIPE"), { code: "EPIPE" });
  const others = [broken, new Error("other", { cause: null }), { meta: null }, "text", null];
  for (const other of [...others, undefined]) expect(sqlErrorOf(other)).toBeUndefined();
});
