import { expect, it } from "vitest";
import { checkOptions, optionsOf } from "./connection-address.js";
import { zookeeper } from "./index.js";

it.each([
  ["zookeeper://a", { servers: ["a"] }],
  ["zookeeper://a:2182/", { servers: ["a:2182"] }],
  ["zookeeper://a:1,b,c:3/locks/app", { servers: ["a:1", "b", "c:3"], chroot: "/locks/app" }],
  [
    "zookeeper://me:p%40ss@a/x?sessionTimeoutMs=15000",
    { servers: ["a"], chroot: "/x", auth: "me:p@ss", sessionTimeoutMs: 15_000 },
  ],
  ["zookeepers://a", { servers: ["a"], files: { ca: null, cert: null, key: null } }],
  [
    "zookeepers://a:2281,b/x?cacert=/ca&cert=/c&key=/k",
    { servers: ["a:2281", "b"], chroot: "/x", files: { ca: "/ca", cert: "/c", key: "/k" } },
  ],
])("reads %s", (url, options) => {
  expect(optionsOf(url)).toEqual(options);
  checkOptions(optionsOf(url));
});

it.each([
  "zookeeper:",
  "zookeeper://",
  "zookeeper:///locks",
  "zookeeper://a@b@c",
  "zookeeper://a/%",
])("reports the expected URL format for %s", (url) => {
  expect(() => zookeeper({ url })).toThrow(
    expect.objectContaining({
      code: "STORE_MISCONFIGURED",
      message: expect.stringContaining("write zookeeper://a:2181,b:2181,c:2181/chroot"),
    }),
  );
});

it.each([
  ["zookeeper://a:x", "servers"],
  // At these ports the driver would end the process.
  ["zookeeper://a:65536", "servers"],
  ["zookeeper://a,b:99999", "servers"],
  ["zookeeper://a\\b", "servers"],
  ["zookeeper://[::1]:2181", "servers"],
  ["zookeeper://a/../b", "chroot"],
  ["zookeeper://a//b", "chroot"],
  ["zookeeper://a?sessionTimeoutMs=", "url: ?sessionTimeoutMs"],
  ["zookeeper://a?sessionTimeoutMs=10", "url: ?sessionTimeoutMs"],
  ["zookeeper://a?sessionTimeoutMs=1.5e3x", "url: ?sessionTimeoutMs"],
  ["zookeeper://a?timeout=1", "url: ?timeout"],
  ["zookeeper://a?cacert=/ca", "url: ?cacert"],
  ["zookeepers://a?cert=/c", "url"],
  ["zookeeper://justuser@a", "auth"],
])("reports the invalid part of %s: %s", (url, path) => {
  expect(() => zookeeper({ url })).toThrow(
    expect.objectContaining({ code: "INVALID_OPTION", path }),
  );
});
