/** `leasehold.once` through a server: what its callers see does not differ from a database. */
import { describe, expect, it, onTestFinished } from "vitest";
import { connect } from "../../packages/leasehold/src/index.js";
import { http } from "../../packages/leasehold/src/stores/http/index.js";
import { openTestApp } from "../support/server/app.js";

type Options = Parameters<typeof openTestApp>[0];

/** Clients of one server, and of the stores behind it. */
async function world(options: Options = {}) {
  const opened = await openTestApp(options);
  const fetch = ((path: string, init: RequestInit) =>
    opened.app.fetch(new Request(path, init))) as typeof globalThis.fetch;
  const client = async (holder: string) => {
    const leasehold = await connect(http({ url: "http://localhost", fetch }), { holder });
    onTestFinished(() => leasehold.close());
    return leasehold;
  };
  return { ...opened, client };
}

describe("once over a server", () => {
  it("does the work of a key once, and answers all others with its value", async () => {
    const { client } = await world();
    const [a, b] = [await client("a"), await client("b")];
    let runs = 0;
    const work = async ({ failures }: { failures: number }) => {
      runs += 1;
      return { run: runs, failures };
    };
    const answers = await Promise.all([a, b, a, b].map((each) => each.once("bill/1", work)));
    expect(runs).toBe(1);
    expect(answers.filter(({ ran }) => ran)).toHaveLength(1);
    for (const { value } of answers) expect(value).toEqual({ run: 1, failures: 0 });
  });

  it("counts failures, until a key has failed for good", async () => {
    const { client } = await world();
    const a = await client("a");
    const bad = () => Promise.reject(new Error("the bank is closed"));
    const options = { maxAttempts: 2 };
    await expect(a.once("bill", options, bad)).rejects.toThrow("the bank is closed");
    await expect(a.once("bill", options, bad)).rejects.toThrow("the bank is closed");
    const failed = { code: "ONCE_FAILED", failures: 2 };
    await expect(a.once("bill", () => 1)).rejects.toMatchObject(failed);
  });

  it("refuses to join a transaction: the records are in another process", async () => {
    const { client } = await world();
    const a = await client("a");
    const sql = { query: async () => ({ rows: [] }) };
    const refused = a.once("bill", (lease) => lease.succeed("sent", { client: sql }));
    await expect(refused).rejects.toMatchObject({ code: "INVALID_OPTION", path: "client" });
  });

  it("is refused before the work where the server keeps no records, and by a server of before", async () => {
    const { client } = await world({ once: undefined });
    const work = () => expect.unreachable();
    const refused = (await client("a")).once("bill", work);
    await expect(refused).rejects.toMatchObject({ code: "INVALID_OPTION", path: "this server" });
    await expect(refused).rejects.toThrow("without --control");
  });
});
