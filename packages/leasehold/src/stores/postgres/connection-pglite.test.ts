import { expect, it } from "vitest";
import { freshPglite } from "../../../../../tests/support/engines/pglite.js";
import { systemEnv } from "../../env/index.js";
import { pgliteBackend } from "./connection-pglite.js";

it("runs renewals before transactions that wait", async () => {
  const { directory, remove } = await freshPglite();
  const { general, control, close } = await pgliteBackend(directory, systemEnv);
  const order: string[] = [];
  const change = (name: string) =>
    general.transaction(async (session) => {
      await session.query("SELECT 1");
      order.push(name);
    });
  const changes = ["first", "second", "third"].map(change);
  const renewal = control.query("SELECT 1").then(() => order.push("renewal"));
  await Promise.all([...changes, renewal]);
  expect(order).toEqual(["first", "renewal", "second", "third"]);
  await close();
  await remove();
});
