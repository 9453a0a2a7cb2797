/** What a record says of time. */
import type { Section } from "../suite.js";
import type { Fixture } from "./fixture.js";

/** The clocks of stores show milliseconds. */
const LATER_MS = 2;

export const times: Section<Fixture> = (test, expect) => {
  test("say when the last failure was, not the first", async (fixture) => {
    await fixture.fail(await fixture.hold("bill"));
    const first = Date.parse((await fixture.view("bill")).at);
    await fixture.pass(LATER_MS);
    await fixture.fail(await fixture.hold("bill"));
    expect(Date.parse((await fixture.view("bill")).at)).toBeGreaterThan(first);
  });

  test("say when the success was, not the failure before it", async (fixture) => {
    await fixture.fail(await fixture.hold("bill"));
    const failed = Date.parse((await fixture.view("bill")).at);
    await fixture.pass(LATER_MS);
    await fixture.succeed(await fixture.hold("bill"));
    expect(Date.parse((await fixture.view("bill")).at)).toBeGreaterThan(failed);
  });

  test("say of a success until when it is kept: keepMs after it", async (fixture) => {
    const keepMs = 60_000;
    await fixture.succeed(await fixture.hold("bill"), { keepMs });
    const { at, keepUntil } = await fixture.view("bill");
    // Both may be rounded.
    const keptMs = Date.parse(keepUntil ?? "") - Date.parse(at);
    expect(Math.abs(keptMs - keepMs)).toBeLessThanOrEqual(1);
  });

  test("of a success in the place of one whose time is over are its own", async (fixture) => {
    const { shortMs: keepMs } = fixture;
    await fixture.succeed(await fixture.hold("bill", "ada"), { value: 1, keepMs });
    await fixture.pass(keepMs);
    await fixture.succeed(await fixture.hold("later"));
    const next = await fixture.hold("bill", "joan");
    await fixture.succeed(next, { value: 2 });
    const view = await fixture.view("bill");
    expect([view.by, view.token, view.value]).toEqual(["joan", next.token, 2]);
    const { at } = await fixture.view("later");
    expect(Date.parse(view.at)).toBeGreaterThanOrEqual(Date.parse(at));
  });

  test("of a repeated call are those of the first one", async (fixture) => {
    const failed = await fixture.hold("failed");
    await fixture.fail(failed, { retryDelayMs: 60_000 });
    const done = await fixture.hold("done");
    await fixture.succeed(done);
    const before = [await fixture.view("failed"), await fixture.view("done")];
    await fixture.pass(LATER_MS);
    await fixture.fail(failed, { retryDelayMs: 600_000 });
    await fixture.succeed(done, { keepMs: 60_000 });
    const after = [await fixture.view("failed"), await fixture.view("done")];
    expect(after.map(({ at }) => at)).toEqual(before.map(({ at }) => at));
    expect(after.map(({ keepUntil }) => keepUntil)).toEqual([null, null]);
    expect(after[0]?.nextInMs).toBeLessThanOrEqual(before[0]?.nextInMs ?? 0);
  });

  test("keep a record apart from its key's lease: a failure that waits leaves it free", async (fixture) => {
    await fixture.fail(await fixture.hold("bill"), { retryDelayMs: 60_000 });
    const grant = await fixture.hold("bill", "joan");
    const { by, nextInMs } = await fixture.view("bill");
    expect(by).toBe("ada");
    expect(nextInMs).toBeGreaterThan(0);
    // It is the caller who waits: a success that comes earlier counts.
    expect(await fixture.succeed(grant)).toEqual({ status: "recorded" });
    expect(await fixture.view("bill")).toMatchObject({ state: "done", nextInMs: 0, by: "joan" });
  });
};
