/** What the operator actions do, and what their entries in the audit say. */
import { describe, expect, it } from "vitest";
import { BY, openControl } from "../../../../tests/support/worlds/control-world.js";
import { memory } from "../stores/memory/index.js";
import { manualEnv } from "../testing/index.js";
import {
  type Act,
  claimedActorOf,
  clearPause,
  NO_LIMITS,
  type Pause,
  pausesOf,
  setPause,
  withLeasesApart,
} from "./index.js";

describe("a pause", () => {
  const QUEUE = { namespace: "n", kind: "queue", name: "mail" } as const;

  it("keeps its time when it is repeated, and says who and why", async () => {
    const { env, control, lastEntry } = await openControl();
    const { since } = await setPause(control, QUEUE, BY);
    expect(await lastEntry()).toMatchObject({
      ...BY,
      namespace: "n",
      action: "queue.pause",
      target: "mail",
      details: { kind: "queue", since },
    });
    await env.clock.advance(1_000);
    await setPause(control, QUEUE, { actor: "cli:other", reason: "longer" });
    expect(await control.pauses.list("n")).toEqual([
      { ...QUEUE, actor: "cli:other", reason: "longer", since },
    ]);
  });

  it("ends, and the audit says whether there was one", async () => {
    const { control, lastEntry } = await openControl();
    await setPause(control, QUEUE, BY);
    expect(await clearPause(control, QUEUE, BY)).toBe(true);
    expect(await lastEntry()).toMatchObject({
      ...BY,
      namespace: "n",
      action: "queue.resume",
      target: "mail",
      details: { kind: "queue", wasPaused: true },
    });
    expect(await control.pauses.list("n")).toEqual([]);
    expect(await clearPause(control, QUEUE, BY)).toBe(false);
    expect((await lastEntry()).details).toMatchObject({ wasPaused: false });
  });

  it("closes its resource, or those below its prefix", () => {
    const pause = (kind: Pause["kind"], name: string): Pause => ({
      namespace: "n",
      kind,
      name,
      actor: "a",
      reason: "r",
      since: "",
    });
    const all = [
      pause("resource", "a/b"),
      pause("resource", "a"),
      pause("prefix", "a/"),
      pause("prefix", "b"),
      pause("prefix", ""),
      pause("queue", "a/b"),
    ];
    const names = (resource: string) =>
      pausesOf(resource, all).map(({ kind, name }) => `${kind} ${name}`);
    expect(names("a/b")).toEqual(["resource a/b", "prefix a/", "prefix "]);
    expect(names("ab")).toEqual(["prefix "]);
  });
});

it("no tenant is limited by default", async () => {
  const { control } = await openControl();
  expect(NO_LIMITS).toEqual({ leases: null, tasks: null, ratePerSecond: null });
  expect(await control.limits.read("n")).toEqual(NO_LIMITS);
});

describe("a claimed actor", () => {
  const aimed = { namespace: "n", action: "lease.collect", target: "t" } as const;
  const act: Act = { ...BY, ...aimed, claimedActor: "Ann" };

  it("is in the details of each entry, and is no actor", async () => {
    const { control } = await openControl();
    await control.perform(act, async () => ({ value: 1, details: { done: true } }));
    const { items } = await control.audit.list({ namespace: "n" });
    expect(items.map(({ actor, details }) => [actor, claimedActorOf(details)])).toEqual([
      ["cli:tester", "Ann"],
      ["cli:tester", "Ann"],
    ]);
    expect(items[0]).not.toHaveProperty("claimedActor");
    expect(JSON.parse(items[0]?.details ?? "")).toEqual({
      intent: 1,
      done: true,
      claimedActor: "Ann",
    });
  });

  it.each([
    ["none", "{}"],
    ["no text", '{"claimedActor":7}'],
    ["details that are no JSON", "{"],
  ])("is null for %s", (_, details) => {
    expect(claimedActorOf(details)).toBeNull();
  });
});

describe("a control store beside the store of the leases", () => {
  it("takes two steps for an action on a lease, with the leases of that store", async () => {
    const { control } = await openControl();
    const other = await memory().open(manualEnv());
    const apart = withLeasesApart(control, other.leases);
    expect(control.leasesApart).toBe(false);
    expect(apart.leasesApart).toBe(true);
    const phases: string[] = [];
    const act: Act = { ...BY, namespace: "n", action: "lease.revoke", target: "r" };
    await apart.perform(
      act,
      async ({ leases }) => ({ value: expect(leases).toBe(other.leases), details: {} }),
      ({ phase }) => phases.push(phase),
    );
    expect(phases).toEqual(["intent"]);
    const { items } = await control.audit.list({ namespace: "n" });
    expect(items.map(({ phase }) => phase)).toEqual(["result", "intent"]);
  });

  it("performs others as it does alone", async () => {
    const { control } = await openControl();
    const other = await memory().open(manualEnv());
    const performed: string[] = [];
    const alone: typeof control = {
      ...control,
      perform(act, work, onEntry) {
        performed.push(act.action);
        return control.perform(act, work, onEntry);
      },
    };
    const apart = withLeasesApart(alone, other.leases);
    const act: Act = { ...BY, namespace: "n", action: "key.create", target: "r" };
    const seen: number[] = [];
    const work = async ({ leases, keys }: Parameters<Parameters<typeof apart.perform>[1]>[0]) => {
      expect(leases).toBe(other.leases);
      expect(keys).toBe(control.actors.keys);
      return { value: 7, details: {} };
    };
    expect(await apart.perform(act, work, ({ seq }) => seen.push(seq))).toBe(7);
    await apart.perform({ ...act, action: "lease.revoke" }, work);
    expect(performed).toEqual(["key.create"]);
    expect(seen).toEqual([1]);
  });
});
