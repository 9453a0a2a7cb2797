import { describe, expect, test } from "vitest";
import { manualEnv } from "../../testing/index.js";
import { openStores } from "../open.js";
import { http } from "./index.js";
import { http as inNode } from "./node.js";

describe("opening", () => {
  test("rejects if no server responds", async () => {
    const env = manualEnv();
    const fetch = () => Promise.resolve(Response.json({ hello: "world" }, { status: 404 }));
    const opening = http({ url: "http://app", fetch }).open(env);
    await expect(opening).rejects.toMatchObject({ code: "STORE_MISCONFIGURED" });
  });

  test("opens as soon as a server responds within the caller's timeout", async () => {
    const env = manualEnv();
    let up = false;
    const fetch = (() => {
      const ttl = { minMs: 1, maxMs: 2, stepMs: 1 };
      if (up) return Promise.resolve(Response.json({ leases: { ttl }, tasks: { ttl } }));
      const cause = Object.assign(new Error(), { code: "ECONNREFUSED", syscall: "connect" });
      return Promise.reject(new TypeError("fetch failed", { cause }));
    }) as typeof globalThis.fetch;
    const source = http({ url: "http://app:1/path", fetch });
    const opening = openStores(source, undefined, env, 30_000);
    await env.clock.advance(20_000);
    up = true;
    await env.clock.advance(1_000);
    await (await opening).close();

    up = false;
    const failing = openStores(source, undefined, env, 1_000);
    failing.catch(() => {});
    await env.clock.advance(1_000);
    await expect(failing).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
      message: expect.stringContaining("http://app:1: fetch failed: ECONNREFUSED"),
    });
  });

  test.each(["http://h:6000", "http://h:10080/base", "http://a:4040,b:6667", "https://h:22"])(
    "refuses %s at once by its port, to which fetch never connects",
    (url) => {
      for (const open of [http, inNode]) {
        expect(() => open({ url })).toThrow(
          expect.objectContaining({
            code: "INVALID_OPTION",
            retryable: false,
            message: expect.stringMatching(/^url cannot be reached: port (6000|10080|6667|22) is /),
          }),
        );
      }
      // Another fetch may connect to it.
      expect(() => http({ url, fetch: () => Promise.reject(new Error()) })).not.toThrow();
    },
  );

  test("accepts http and https URLs without passwords, unknown parameters or trailing slashes", async () => {
    const urls: string[] = [];
    const fetch = ((url: string) => {
      urls.push(url);
      const ttl = { minMs: 1, maxMs: 2, stepMs: 1 };
      return Promise.resolve(Response.json({ leases: { ttl }, tasks: { ttl } }));
    }) as typeof globalThis.fetch;
    for (const url of ["http://h:1", "https://h/", new URL("http://h/a/b/")]) {
      await http({ url, fetch }).open(manualEnv());
    }
    expect(urls).toEqual([
      "http://h:1/v1/capabilities",
      "https://h/v1/capabilities",
      "http://h/a/b/v1/capabilities",
    ]);
    for (const url of [
      "",
      "h:1",
      "ftp://h",
      "http://u:p@h",
      "http://h#x",
      "http://a,,b",
      "http://a,b c",
    ]) {
      expect(() => http({ url }), url).toThrow(
        expect.objectContaining({ code: "INVALID_OPTION", path: "url" }),
      );
    }
    for (const [url, path] of [
      ["http://h?x=1", "url: ?x"],
      // In Node, a URL with TLS may have it.
      ["http://h?cacert=/ca.pem", "url: ?cacert"],
      ["https://h?cacert=/ca.pem", "url: ?cacert"],
    ] as const) {
      expect(() => http({ url }), url).toThrow(
        expect.objectContaining({ code: "INVALID_OPTION", path }),
      );
    }
  });

  test("takes certificates in Node only, with TLS, and not beside a fetch that brings its own", () => {
    const invalid = (path: string, problem: RegExp) =>
      expect.objectContaining({
        code: "INVALID_OPTION",
        path,
        message: expect.stringMatching(problem) as string,
      }) as Error;
    const [url, tls] = ["https://h", { ca: "PEM" }];
    expect(() => http({ url, tls })).toThrow(invalid("tls", /needs Node/));
    expect(() => inNode({ url, tls, fetch })).toThrow(invalid("fetch", /brings its own/));
    expect(() => inNode({ url: `${url}?cacert=/ca.pem`, fetch })).toThrow(
      invalid("fetch", /its own/),
    );
    expect(() => inNode({ url: `${url}?cert=/a.pem` })).toThrow(invalid("url", /both \?cert= and/));
    expect(() => inNode({ url: "http://h", tls })).toThrow(invalid("tls", /begins with https:/));
    expect(() => inNode({ url, tls: { key: "PEM" } })).toThrow(invalid("tls", /both cert and key/));
  });
});
