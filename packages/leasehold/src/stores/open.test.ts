import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Env, systemEnv } from "../env/index.js";
import { connect } from "../index.js";
import { type LeaseholdError, Retrying, StoreUnavailableError } from "../lease/index.js";
import { manualEnv } from "../testing/index.js";
import { ENGINES } from "./open.js";
import { type Engines, openBy } from "./opening.js";
import { openPostgres, pglite } from "./postgres/index.js";
import type { LeaseStores, Source } from "./source.js";

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
    ["sqlite:./never.db?mode=ro", "?mode ", "there are none"],
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
    ["sqlite:///q1", "must be a path such as ./leases.db or /data/leases.db, without //"],
    ["pglite:memory://", "must be a path such as ./data or /data, without //"],
  ])("%s is refused, because it names another place than it seems to", async (url, remedy) => {
    await expect(open(url)).rejects.toMatchObject({
      code: "INVALID_OPTION",
      message: expect.stringContaining(remedy),
    });
  });
});

describe("a URL whose parameters have wrong values", () => {
  it.each([
    ["postgres://127.0.0.1:9/db?ssl=off", '?ssl must be "true" or "false"'],
    ["postgres://127.0.0.1:9/db?requiressl=1", "?requiressl has no effect"],
    ["postgres://127.0.0.1:9/db?schema=a&schema=b", "?schema is given twice"],
    ["postgres://127.0.0.1:9/db?schema=", "?schema must not be empty"],
    ["pglite:./never?schema=a&schema=b", "?schema is given twice"],
    ["redis://127.0.0.1:9?format=redlok", '?format must be "redlock" or'],
    ["rediss://127.0.0.1:9?cacert=/a&cacert=/b", "?cacert is given twice"],
    ["etcds://127.0.0.1:9?tls=false", "?tls contradicts etcds://"],
    ["etcd://127.0.0.1:9?tls=off", '?tls must be "true" or "false"'],
    ["etcd://127.0.0.1:9?tls&tls=false", "?tls is given twice"],
    ["consuls://127.0.0.1:9?tls=false", "?tls contradicts consuls://"],
    ["consul://127.0.0.1:9?sessionTtlMs=20s", "?sessionTtlMs must be a whole number"],
    ["consul://127.0.0.1:9?sessionTtlMs=2e4", "?sessionTtlMs must be a whole number"],
    ["consul://127.0.0.1:9?token=", "?token must not be empty"],
    ["zookeeper://127.0.0.1:9?sessionTimeoutMs=0x2710", "?sessionTimeoutMs must be a whole number"],
    ["kubernetes:jobs?context=a&context=b", "?context is given twice"],
    ["kubernetes:jobs?kubeconfig=~/.kube/config", "?kubeconfig must not begin with ~"],
    ["https://127.0.0.1:9?cacert=", "?cacert must not be empty"],
    ["https://127.0.0.1:9?cacert=%zz", "must have its parameters percent-encoded"],
    ["https://127.0.0.1:9?cacert=/a&cert=~/b&key=/c", "?cert must not begin with ~"],
  ])("%s is refused by name", async (url, remedy) => {
    await expect(open(url)).rejects.toMatchObject({
      code: "INVALID_OPTION",
      message: expect.stringContaining(remedy) as string,
    });
  });
});

describe("a URL that would name another store than it seems to", () => {
  it.each([
    ["pglite:~/locks", "must not begin with ~, which only a shell expands"],
    ["pglite:~", "must not begin with ~"],
    ["pglite:$HOME/locks", "has a variable that was not expanded"],
    [`pglite:./\${DATA}`, "has a variable that was not expanded"],
    ["memory:$NAME", "has a variable that was not expanded"],
    ["redis://$HOST:6379", "has a variable that was not expanded"],
    ["http://$HOST:4040", "has a variable that was not expanded"],
    ["pglite: ./data", "must not begin or end with a space"],
    ["pglite:./data\n", "must not end with a space or a line break"],
    ["memory://jobs", "must be memory:NAME, without //"],
    ["postgres:host/app", "write postgres://"],
    ["postgres:///app", "write postgres://"],
    ["redis:host/0", "write redis://"],
    ["redis:///0", "write redis://"],
    ["redis+sentinel:a/name", "write redis+sentinel://"],
    ["etcd:host", "must be like etcd://"],
    ["etcd://127.0.0.1:9\\shop", "must name hosts like host:2379"],
    ["etcd://127.0.0.1:0", "with ports from 1 to 65535"],
    ["etcds://127.0.0.1:9,[::1]:65536", "with ports from 1 to 65535"],
    ["consul://127.0.0.1:9\\shop", "must name hosts like host:8500"],
    ["consul://127.0.0.1:0", "with ports from 1 to 65535"],
    ["consuls://127.0.0.1:9,a b", "must name hosts like host:8501"],
    ["consul:host", "must be like consul://"],
    ["zookeeper:host", "write zookeeper://"],
    ["http:host", "must be like http://host:port"],
    ["http:/host", "must be like http://host:port"],
    ["https:///host", "must be like http://host:port"],
  ])("%j is refused", async (url, remedy) => {
    await expect(open(url)).rejects.toMatchObject({
      code: expect.stringMatching(/^(INVALID_OPTION|STORE_MISCONFIGURED)$/) as string,
      message: expect.stringContaining(remedy) as string,
    });
  });

  it("is the same as a URL object that is made of it", async () => {
    const text = "memory:prüfung mit Leerzeichen";
    const [first, second] = [await connect(text), await connect(new URL(text))];
    const lease = await first.acquire("r", { autoRenew: false });
    expect(await second.tryAcquire("r")).toBeNull();
    // Otherwise close() waits for it.
    await lease.release();
    await Promise.all([first.close(), second.close()]);
  });

  it("is refused as an option, too", () => {
    for (const directory of ["~/locks", "$DATA", "./data "]) {
      expect(() => pglite({ directory })).toThrow(
        expect.objectContaining({ code: "INVALID_OPTION", path: "directory" }),
      );
    }
  });
});

describe("what begins with no scheme of a store", () => {
  const quote = `"postgres://me:secret@host/app"`;
  it.each([
    ["mysql://me:secret@host/app", "it begins with mysql:"],
    ["postgre://me:secret@host/app", "it begins with postgre: (did you mean postgres:)"],
    ["redsi://me:secret@host", "did you mean redis:"],
    ["htp://host", "did you mean http:"],
    [quote, "it begins with a quote, which is no part of a URL: remove it"],
    [" postgres://me:secret@host/app", "it begins with a space or a line break: remove it"],
    ["\tredis://host", "it begins with a space or a line break: remove it"],
    [`\${DATABASE_URL}`, "it begins with a variable that was not expanded"],
    ["$DATABASE_URL", "it begins with a variable that was not expanded"],
    ["%DATABASE_URL%", "it begins with a variable that was not expanded"],
    ["{{ database_url }}", "it begins with a variable that was not expanded"],
    ["valkey://me:secret@host", "Valkey has the URLs of Redis: redis:// or rediss://"],
    ["valkeys://host", "Valkey has the URLs of Redis"],
    ["postgresql+asyncpg://me:secret@host/app", "write postgresql://"],
    ["postgres+psycopg2://host/app", "write postgres://"],
    ["jdbc:postgresql://host/app?password=secret", "write it from postgresql:// on"],
    ["psql 'postgres://me:secret@host/app'", "write it from postgres:// on"],
    ["DATABASE_URL=postgres://me:secret@host/app", "write it from postgres:// on"],
    ["redis+unix:///run/redis.sock", "Redis is reached by TCP alone"],
    ["redis-socket:///run/redis.sock", "Redis is reached by TCP alone"],
    ["unix:///run/redis.sock", "Redis is reached by TCP alone"],
    ["redis-sentinel://host/name", "did you mean redis+sentinel:"],
    ["./data", 'it has no scheme: for PGlite in a folder, write "pglite:./folder"'],
    ["secret@host", "it has no scheme"],
  ])("%j is refused with the usual cause", async (url, cause) => {
    const error = await open(url).catch((reason: unknown) => reason as Error);
    expect(error).toMatchObject({
      code: "INVALID_OPTION",
      message: expect.stringMatching(/^source must begin with one of memory:, http:/) as string,
    });
    expect((error as Error).message).toContain(`; it `);
    expect((error as Error).message).toContain(cause);
    expect((error as Error).message).not.toContain("secret");
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

it.each([
  [1_000, 1_000],
  [Number.MAX_SAFE_INTEGER, 2 ** 31 - 1],
  [2 ** 31, 2 ** 31 - 1],
])("a driver that may take %d ms gets %d, the longest time of Node's timers", async (ms, gets) => {
  const asked: unknown[] = [];
  const stores = { close: async () => {} } as LeaseStores;
  const source = {
    open: async (_: unknown, timeoutMs?: number) => {
      asked.push(timeoutMs);
      return stores;
    },
  };
  expect(await openBy(ENGINES, source, manualEnv(), ms)).toBe(stores);
  expect(asked).toEqual([gets]);
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

describe("an opening whose time is over while an attempt is under way", () => {
  /** Fails as often as it is asked before the time is over, and then answers no more. */
  const failing = (first: LeaseholdError) => ({
    async open(env: Env, timeoutMs = 0) {
      let asked = 0;
      await new Retrying(env).call(
        () => (asked++ === 0 ? Promise.reject(first) : new Promise<never>(() => {})),
        { timeoutMs },
      );
      return {} as LeaseStores;
    },
  });
  const failed = async (source: Source, engines: Engines = ENGINES) => {
    const env = manualEnv();
    const error = openBy(engines, source, env, 1_000).catch((error: unknown) => error as Error);
    await env.clock.advance(1_000);
    return error;
  };

  it("says why the attempts before it failed", async () => {
    const first = new StoreUnavailableError("certificate has expired", { outcome: "none" });
    expect(await failed(failing(first))).toMatchObject({
      message:
        "no connection within connectTimeoutMs = 1000: certificate has expired; nothing has changed: try again",
      cause: first,
    });
  });

  it("keeps what a server asked for", async () => {
    const first = new StoreUnavailableError("too many", {
      outcome: "none",
      refusedBy: "rate",
      retryAfterMs: 70,
    });
    expect(await failed(failing(first))).toMatchObject({ refusedBy: "rate", retryAfterMs: 70 });
  });

  it.each([
    ["slow://a:1,b/app?x=1", " to a:1,b"],
    ["slow://me:p/w@d@host:1/app", " to host:1"],
    // What may be a part of a password is not shown.
    ["slow://me:p?w@host:1/app", ""],
    ["slow:///app?host=/run", ""],
    ["slow:name", ""],
  ])("names the hosts of %s alone", async (url, hosts) => {
    const engines = { slow: async () => ({ open: () => new Promise<never>(() => {}) }) };
    expect(await failed(url, engines)).toMatchObject({
      message: `no connection${hosts} within connectTimeoutMs = 1000; nothing has changed: try again`,
    });
  });
});

function quoted(text: string): string {
  return text.replace(/[?()]/g, "\\$&");
}
