/** Every store names the deepest cause of a failure in its message: "fetch failed" alone helps no operator. */
import { describe, expect, it } from "vitest";
import { revoked, unreadable } from "../../../../tests/support/worlds/thrown.js";
import { asStoreError, sqlErrorOf } from "../lease/index.js";
import { connectionFailure as consul } from "./consul/failures.js";
import { connectionFailure as http } from "./http/connection.js";
import { connectionError as kubernetes } from "./kubernetes/failures.js";
import { storeError as postgres } from "./postgres/failures.js";
import { storeError as redis } from "./redis/failures.js";
import { storeError as zookeeper } from "./zookeeper/failures.js";

const ORIGIN = "http://localhost:6000";
const ASKED = { verb: "get", namespace: "default", server: ORIGIN } as const;

const STORES: Readonly<Record<string, (cause: unknown) => Error>> = {
  consul: (cause) => consul(cause, ORIGIN),
  http: (cause) => http(cause, ORIGIN).error,
  kubernetes: (cause) => kubernetes(cause, false, ASKED),
  postgres: (cause) => postgres(cause, false),
  redis: (cause) => redis(cause, false),
  zookeeper: (cause) => zookeeper(cause, false),
  another: (cause) => asStoreError(cause, "no"),
};

const refused = (address: string) =>
  Object.assign(new Error(`connect ECONNREFUSED ${address}`), { code: "ECONNREFUSED" });

/** Each with what the message contains. */
const CAUSES: readonly (readonly [string, unknown, string])[] = [
  [
    "a port that fetch blocks",
    new TypeError("fetch failed", { cause: new Error("bad port") }),
    "fetch failed: bad port",
  ],
  [
    "no server",
    new TypeError("fetch failed", { cause: refused("127.0.0.1:1") }),
    "fetch failed: connect ECONNREFUSED 127.0.0.1:1",
  ],
  [
    "no server at two addresses",
    Object.assign(new AggregateError([refused("::1:1"), refused("127.0.0.1:1")]), {
      code: "ECONNREFUSED",
    }),
    "connect ECONNREFUSED ::1:1; connect ECONNREFUSED 127.0.0.1:1",
  ],
  [
    "a cause of a cause",
    new Error("outer", { cause: new Error("middle", { cause: new Error("deepest") }) }),
    "outer: middle: deepest",
  ],
  ["only a code", Object.assign(new Error(""), { code: "ECONNRESET" }), "ECONNRESET"],
  ["a value that cannot be read", revoked(), "[a value that cannot be read]"],
  ["an Error whose message cannot be read", unreadable(), "[a value that cannot be read]"],
];

describe.each(Object.entries(STORES))("the store %s", (_store, failure) => {
  it.each(CAUSES)("says why it failed: %s", (_name, cause, expected) => {
    const { message } = failure(cause);
    expect(message).toContain(expected);
    expect(message.split(expected)).toHaveLength(2);
  });
});

it("finds no error of SQL in a chain of causes without an end, or in what cannot be read", () => {
  const endless = new Error("x");
  endless.cause = endless;
  for (const odd of [endless, revoked(), unreadable()]) expect(sqlErrorOf(odd)).toBeUndefined();
});
