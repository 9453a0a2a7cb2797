/** Several servers, played by a fetch: which one is asked, and for how long. */
import { describe, expect, test } from "vitest";
import type { LeaseholdError } from "../../lease/index.js";
import { manualEnv } from "../../testing/index.js";
import { BOUNDS } from "../../wire/index.js";
import { type Call, HttpClient } from "./connection.js";
import { addressOf } from "./connection-address.js";
import { Servers } from "./connection-servers.js";
import { http } from "./index.js";

type Behaviour = "answers" | "refuses" | "resets" | "silent" | number;

/** @param behaviours of the servers a, b and so on; may change */
function scripted(behaviours: Record<string, Behaviour>) {
  const env = manualEnv();
  /** Which server was asked, and how long the answer may take. */
  const asked: (readonly [server: string, budgetMs: number])[] = [];
  const fetch = (url: string, init: RequestInit): Promise<Response> => {
    const { hostname } = new URL(url);
    const behaviour = behaviours[hostname];
    const headers = init.headers as Record<string, string>;
    asked.push([hostname, Number(headers["leasehold-budget-ms"])]);
    if (behaviour === "silent") {
      return new Promise((_, reject) => {
        init.signal?.addEventListener("abort", () => reject(init.signal?.reason as Error));
      });
    }
    if (behaviour === "refuses" || behaviour === "resets") {
      const code = behaviour === "refuses" ? "ECONNREFUSED" : "ECONNRESET";
      const cause = Object.assign(new Error(code), { code });
      return Promise.reject(new TypeError("fetch failed", { cause }));
    }
    const status = typeof behaviour === "number" ? behaviour : 200;
    return Promise.resolve(
      Response.json({ from: hostname }, { status, headers: { "retry-after": "5" } }),
    );
  };
  const names = Object.keys(behaviours);
  const client = new HttpClient({
    servers: new Servers(names.map((name) => `http://${name}`)),
    namespace: "default",
    headers: {},
    maxBodyBytes: BOUNDS.payloadBodyBytes,
    env,
    fetch,
  });
  /** Runs a call to its end, advancing the clock while it waits. */
  const send = async (call: Partial<Call> = {}) => {
    asked.length = 0;
    let done = false;
    const answer = client
      .send({ method: "POST", path: "/x", budgetMs: 1_000, ...call })
      .finally(() => {
        done = true;
      });
    for (let ms = 0; !done && ms < 60_000; ms += 10) await env.clock.advance(10);
    return answer;
  };
  return { client, env, asked, send };
}
const from = (server: string) => ({ status: 200, body: { from: server } });
const serversOf = (asked: readonly (readonly [string, number])[]) =>
  asked.map(([server]) => server);

describe("of several servers", () => {
  test.each<Behaviour>(["refuses", 503])(
    "one that %s is skipped in the same call, and left",
    async (first) => {
      const { asked, send } = scripted({ a: first, b: "answers" });
      expect(await send()).toEqual(from("b"));
      expect(serversOf(asked)).toEqual(["a", "b"]);
      expect(await send()).toEqual(from("b"));
      expect(serversOf(asked)).toEqual(["b"]);
    },
  );

  test.each<Behaviour>(["resets", 502, 500])(
    "after one that %s, the repetition goes to the next",
    async (first) => {
      const { asked, send } = scripted({ a: first, b: "answers" });
      expect(await send()).toMatchObject({ status: "failed", applied: "maybe" });
      expect(serversOf(asked)).toEqual(["a"]);
      expect(await send()).toEqual(from("b"));
    },
  );

  test("a silent one leaves time for the others", async () => {
    const { asked, env, send } = scripted({ a: "silent", b: "answers", c: "answers" });
    const startMs = env.clock.monotonic();
    expect(await send({ budgetMs: 900 })).toMatchObject({ status: "failed", applied: "maybe" });
    expect(env.clock.monotonic() - startMs).toBeLessThanOrEqual(310);
    expect(asked).toEqual([["a", 300]]);
    expect(await send()).toEqual(from("b"));
  });

  test("the last one that is left may take all the time", async () => {
    const { asked, send } = scripted({ a: "refuses", b: "silent" });
    await send({ budgetMs: 1_000 });
    expect(asked).toEqual([
      ["a", 500],
      ["b", 1_000],
    ]);
  });

  test("one may keep a call waiting as long as it was asked to", async () => {
    const { asked, send } = scripted({ a: "silent", b: "answers" });
    await send({ budgetMs: 11_000, waitMs: 10_000 });
    expect(asked).toEqual([["a", 10_500]]);
    await send({ budgetMs: 400, waitMs: 10_000 });
    expect(asked).toEqual([["b", 400]]);
  });

  test("one that refuses by a limit is not left: the others have the same limits", async () => {
    const { asked, send } = scripted({ a: 429, b: "answers" });
    expect(await send()).toMatchObject({ status: "failed", applied: "no" });
    expect(serversOf(asked)).toEqual(["a"]);
    await send();
    expect(serversOf(asked)).toEqual(["a"]);
  });

  test("one that lacks a feature is not left: the others lack it too", async () => {
    const { client, asked, send } = scripted({ a: 501, b: "answers" });
    expect(await send()).toMatchObject({ status: "failed", applied: "maybe" });
    expect(serversOf(asked)).toEqual(["a"]);
    expect(client.connection.servers.current).toBe("http://a");
  });

  test("each is asked once, and the failure is of the last", async () => {
    const { asked, send } = scripted({ a: "refuses", b: 503, c: "refuses" });
    const answer = (await send()) as { error: LeaseholdError };
    expect(answer).toMatchObject({ status: "failed", applied: "no", retryable: true });
    expect(answer.error.message).toContain("http://c: ");
    expect(serversOf(asked)).toEqual(["a", "b", "c"]);
  });

  test("one is not left because its caller gave up or the client closed", async () => {
    const { client, env, asked } = scripted({ a: "silent", b: "answers" });
    const gone = new AbortController();
    const call = client.send({ method: "GET", path: "/x", signal: gone.signal });
    await env.clock.settle();
    gone.abort();
    expect(await call).toMatchObject({ status: "failed", applied: "maybe" });
    expect(client.connection.servers.current).toBe("http://a");
    const other = client.send({ method: "GET", path: "/x" });
    client.close();
    expect(await other).toMatchObject({ status: "failed", error: { code: "CLOSED" } });
    expect(client.connection.servers.current).toBe("http://a");
    expect(serversOf(asked)).toEqual(["a", "a"]);
  });
});

describe("the URL", () => {
  test("may name several servers, which share its path and its key", () => {
    const { parameters, ...address } = addressOf(
      "HTTPS://lh%2Dkey@a:4040,[::1],b.example/base/?cacert=/ca.pem",
      { cacert: () => null },
    );
    expect(address).toEqual({
      baseUrls: ["https://a:4040/base", "https://[::1]/base", "https://b.example/base"],
      isTls: true,
      apiKey: "lh-key",
    });
    expect(parameters.get("cacert")).toBe("/ca.pem");
  });

  test("is not quoted when it is wrong, because it has the key", () => {
    for (const url of [
      "http://secret@a:b:c",
      "http://secret@a,,b",
      "http://secret%@a",
      "http://secret@a?b=1",
      "ftp://secret@a",
      "http://secret@a:4040,http://secret@b:4040",
      "http:secret@a",
      "http:/secret@a",
      "http:///a",
      "http://secret@a:0",
    ]) {
      try {
        http({ url });
        expect.unreachable(url);
      } catch (error) {
        expect((error as LeaseholdError).code).toBe("INVALID_OPTION");
        expect(String((error as Error).stack)).not.toContain("secret");
      }
    }
  });
});
