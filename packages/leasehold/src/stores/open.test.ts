import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemEnv } from "../env/index.js";
import { manualEnv } from "../testing/index.js";
import { ENGINES } from "./open.js";
import { openBy } from "./opening.js";
import { openPostgres, pglite } from "./postgres/index.js";
import type { LeaseStores } from "./source.js";

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "leasehold-open-"));
});
afterAll(() => rm(directory, { recursive: true }));

const open = (url: string) => openBy(ENGINES, url, systemEnv, 60_000);

describe("the URL of a store", () => {
  it.each([
    ["postgres://127.0.0.1:9/db?schem=foo", "?schem ", "did you mean ?schema="],
    ["postgres://127.0.0.1:9/db?sslmod=require", "?sslmod ", "did you mean ?sslmode="],
    ["postgres://127.0.0.1:9/db?pgbouncer=true", "?pgbouncer ", "known are ?schema and ?watch"],
    ["pglite:./never?shema=foo", "?shema ", "did you mean ?schema="],
    ["redis://127.0.0.1:9/?fromat=redlock", "?fromat ", "did you mean ?format="],
    ["etcd://127.0.0.1:9?tsl", "?tsl ", "did you mean ?tls="],
    ["consul://127.0.0.1:9?sessionTTLMs=1", "?sessionTTLMs ", "?sessionTtlMs="],
    ["zookeeper://127.0.0.1:9?sessionTimeoutMS=1", "?sessionTimeoutMS ", "?sessionTimeoutMs="],
    ["kubernetes:jobs?contex=a", "?contex ", "did you mean ?context="],
    ["memory:jobs?schema=a", "?schema ", "there are none"],
  ])("%s is refused, because its parameter is unknown", async (url, name, remedy) => {
    await expect(open(url)).rejects.toMatchObject({
      code: "INVALID_OPTION",
      message: expect.stringMatching(new RegExp(`${quoted(name)}.*${quoted(remedy)}`)),
    });
  });

  it("may have the parameters of libpq and pg", async () => {
    const known =
      "sslmode=disable&application_name=a&options=-c%20work_mem=1MB&channel_binding=prefer";
    await expect(
      open(`postgres://127.0.0.1:9/db?${known}&query_timeout=1000&watch=poll`),
    ).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
  });

  it.each([
    ["pglite://./q1", "must be a path such as ./data or /data, without //"],
    ["kubernetes://jobs", "must be kubernetes:NAMESPACE, without //"],
    ["pglite:memory://", "must be a path such as ./data or /data, without //"],
  ])("%s is refused, because it names another place than it seems to", async (url, remedy) => {
    await expect(open(url)).rejects.toMatchObject({
      code: "INVALID_OPTION",
      message: expect.stringContaining(remedy),
    });
  });
});

describe("a URL with its scheme twice", () => {
  it.each([
    ["http://a:4040,http://b:4040", "http://host1,host2"],
    ["https://a/base,https://b", "https://host1,host2"],
    ["postgres://user:secret@a/app,postgres://user:secret@b/app", "postgres://host1,host2"],
    ["redis://a:6379, redis://b:6379", "redis://host1,host2"],
    ["etcd://a:2379,etcd://b:2379", "etcd://host1,host2"],
    ["consul://a,consul://b", "consul://host1,host2"],
    ["zookeeper://a,zookeeper://b", "zookeeper://host1,host2"],
  ])("%s is refused with the right form", async (url, example) => {
    const message = `source must have its scheme once, before the hosts: ${example}`;
    await expect(open(url)).rejects.toMatchObject({ code: "INVALID_OPTION", message });
  });
});

describe("the directory of PGlite", () => {
  it("may have the schema of the tables in its URL", async () => {
    const url = `pglite:${join(directory, "dat")}?schema=foo`;
    await (await open(url)).close();
    expect(await readdir(directory)).toEqual(["dat"]);
    const other = await openPostgres({ directory: join(directory, "dat") }, systemEnv);
    const schemas = await other.connections.backend.general.query<{ n: number }>(
      "SELECT count(*)::int AS n FROM pg_namespace WHERE nspname IN ('foo', 'leasehold')",
    );
    await other.close();
    expect(schemas).toEqual([{ n: 2 }]);
  });

  it.each(["", "/below"])("is refused by name if it is a file%s", async (below) => {
    const file = join(directory, "file");
    await writeFile(file, "");
    await expect(open(`pglite:${file}${below}`)).rejects.toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: `the PGlite directory ${file}${below} is a file, or below one: name a directory`,
    });
  });
});

describe("a PGlite that starts slowly", () => {
  it("is waited for, however its source is written", async () => {
    const env = manualEnv();
    const db = { query() {}, transaction() {}, listen() {}, closed: false } as never;
    const { connectTimeoutMs } = pglite({ directory: "" });
    expect(pglite({ db }).connectTimeoutMs).toBe(connectTimeoutMs);
    let start = (_stores: LeaseStores) => {};
    const stores = { close: async () => {} } as LeaseStores;
    const source = {
      ...(connectTimeoutMs !== undefined && { connectTimeoutMs }),
      open: () => new Promise<LeaseStores>((resolve) => (start = resolve)),
    };
    const opening = openBy(ENGINES, source, env);
    await env.clock.advance(59_000);
    start(stores);
    expect(await opening).toBe(stores);
  });
});

function quoted(text: string): string {
  return text.replace(/[?()]/g, "\\$&");
}
