import { expect, it } from "vitest";
import type { LeaseView } from "../lease/index.js";
import { leadershipOf, markedAs, markOf, termsOf } from "./leadership.js";

function view(resource: string, more: Partial<LeaseView> & { mark?: string } = {}): LeaseView {
  const { mark, ...rest } = more;
  return {
    namespace: "default",
    resource,
    holder: "a",
    grantId: "0e8fa952b5647bef",
    token: 1,
    state: "live",
    ttlMs: 1_000,
    remainingMs: 500,
    renewedAt: null,
    grantedAt: "2020-01-01T12:00:00.000Z",
    expiresAt: "2020-01-01T12:00:01.000Z",
    metadata: mark === undefined ? null : JSON.stringify({ leasehold: mark }),
    ...rest,
  };
}

it("marks grants, beside what their users or the client's defaults say", () => {
  const defaults = { metadata: { host: "a" } };
  expect(markedAs("elector", { defaults })).toEqual({ leasehold: "elector", host: "a" });
  expect(markedAs("shard", { defaults }, { b: "c" })).toEqual({ leasehold: "shard", b: "c" });
  expect(markedAs("shard", { defaults: {} }, { leasehold: "mine" })).toEqual({ leasehold: "mine" });
});

it.each([
  [null, null],
  ['{"leasehold":"singleton"}', "singleton"],
  ['{"leasehold":"nothing of ours"}', null],
  ['{"leasehold":["elector"]}', null],
  ['{"other":"leasehold"}', null],
  ['not JSON with "leasehold"', null],
  ['["leasehold"]', null],
])("reads of %s that it is %s", (metadata, mark) => {
  expect(markOf({ metadata })).toBe(mark);
});

it("groups shards by the name before them, whatever that is", () => {
  const name = "a/shards/7/members";
  const { elections, shards } = leadershipOf([
    view("x"),
    view("leader", { mark: "elector" }),
    view("job", { mark: "singleton" }),
    view(`${name}/coordinator`, { mark: "coordinator" }),
    view("b/members/one/two", { mark: "member" }),
    view("b/members/gone", { mark: "member", state: "expired" }),
    view(`${name}/shards/10`, { mark: "shard" }),
    view(`${name}/shards/9`, { mark: "shard" }),
    view("not one of ours", { mark: "shard" }),
  ]);
  expect(elections.map(({ kind, view: { resource } }) => [kind, resource])).toEqual([
    ["elector", "leader"],
    ["singleton", "job"],
  ]);
  expect(
    shards.map((group) => [
      group.name,
      group.coordinator?.resource,
      group.members.map(({ member, view: { resource } }) => [member, resource]),
      group.shards.map(({ shard, view: { resource } }) => [shard, resource]),
    ]),
  ).toEqual([
    [
      name,
      `${name}/coordinator`,
      [],
      [
        [9, `${name}/shards/9`],
        [10, `${name}/shards/10`],
      ],
    ],
    ["b", undefined, [["one/two", "b/members/one/two"]], []],
  ]);
  expect(shards[1]).toHaveProperty("coordinator", null);
});

it("says how long the election was without a leader, if both times are known", () => {
  const grants = [
    view("r", { grantedAt: "2020-01-01T12:00:09.500Z" }),
    view("r", { state: "expired", expiresAt: "2020-01-01T12:00:08.000Z", grantedAt: null }),
    view("r", { state: "released", expiresAt: "2020-01-01T12:00:01.000Z" }),
  ];
  expect(termsOf(grants)).toEqual([
    { view: grants[0], vacantMs: 1_500 },
    { view: grants[1], vacantMs: null },
    { view: grants[2], vacantMs: null },
  ]);
});
