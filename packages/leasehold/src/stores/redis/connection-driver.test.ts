/** Which settings the store takes from a client, and which of its own. */
import { expect, it } from "vitest";
import { driverByClient, type RedisClient } from "./connection-driver.js";

/** A client that keeps what its duplicates override. */
function client() {
  const overrides: object[] = [];
  const made = {
    options: { keyPrefix: "app:" },
    duplicate: (override: object) => void overrides.push(override),
  };
  return { made: made as unknown as RedisClient, overrides };
}

it("refuses an async natMap, whose rejection would be unhandled", () => {
  const natMap = () => Promise.reject(new Error("no address"));
  const { made } = client();
  const cluster = { isCluster: true, options: { natMap }, nodes: () => [made] };
  expect(() => driverByClient(cluster).open({ host: "10.0.0.1", port: 6_379 })).toThrow(
    /^natMap must return the address of the node, but it returned a promise/,
  );
});

it("opens nodes by the client's settings, and by its host where a cluster names none", () => {
  const { made, overrides } = client();
  const natMap = { "10.0.0.1:6379": { host: "public", port: 7_000 } };
  const cluster = { isCluster: true, options: { keyPrefix: "app:", natMap }, nodes: () => [made] };
  for (const driver of [driverByClient(made), driverByClient(cluster)]) {
    expect(driver.prefix).toBe("app:");
    driver.open();
    driver.open({ host: "10.0.0.1", port: 6_379 });
    driver.open({ host: "b", port: 2 });
    driver.open({ host: "", port: 3 });
  }
  const given = overrides.map((override) => {
    const { host, port, keyPrefix, enableOfflineQueue } = override as Record<string, unknown>;
    expect([keyPrefix, enableOfflineQueue]).toEqual(["", false]);
    return "host" in override ? [host, port] : port;
  });
  const rest = [["b", 2], 3];
  expect(given).toEqual([
    undefined,
    ["10.0.0.1", 6_379],
    ...rest,
    undefined,
    ["public", 7_000],
    ...rest,
  ]);
});
