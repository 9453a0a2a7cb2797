/** Verification of the audit chain over HTTP. */
import { expect, it, onTestFinished } from "vitest";
import { openApp } from "../../../../../tests/support/app.js";

const PATH = "/v1/audit/verify";

it("verifies again after a verification that failed", async () => {
  const { ask, stores, close } = await openApp();
  onTestFinished(close);
  const { control } = stores;
  if (!control) throw new Error("no control");
  const { read } = control.audit;
  control.audit.read = async () => {
    throw new Error("the database is restarting");
  };
  expect((await ask("GET", PATH)).status).toBe(500);
  expect((await ask("GET", PATH)).status).toBe(500);
  control.audit.read = read;
  expect(await ask("GET", PATH)).toMatchObject({ status: 200, body: { ok: true } });
});

it("refuses a second verification only while the first one runs", async () => {
  const { ask, stores, close } = await openApp();
  onTestFinished(close);
  const { control } = stores;
  if (!control) throw new Error("no control");
  const { read } = control.audit;
  let begun = () => {};
  const isReading = new Promise<void>((resolve) => (begun = resolve));
  let goOn = () => {};
  const mayRead = new Promise<void>((resolve) => (goOn = resolve));
  control.audit.read = async (...args) => {
    begun();
    await mayRead;
    return await read.apply(control.audit, args);
  };
  const first = ask("GET", PATH);
  await isReading;
  expect(await ask("GET", PATH)).toMatchObject({ status: 429, body: { code: "OVERLOADED" } });
  goOn();
  expect((await first).status).toBe(200);
  expect((await ask("GET", PATH)).status).toBe(200);
});
