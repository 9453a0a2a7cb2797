import { expect, it } from "vitest";
import { shownUrl } from "./shown-url.js";

it.each([
  ["http://secret@a:4040/base", "http://***@a:4040/base"],
  ["http://secret@a:4040,b:4040/base", "http://***@a:4040,b:4040/base"],
  ["https://secret@[::1]:1,b:2?cacert=/ca.pem", "https://***@[::1]:1,b:2?cacert=/ca.pem"],
  ["http://a:1,b:2/x@y", "http://a:1,b:2/x@y"],
  ["postgres://user:secret@a:1,b:2/app", "postgres://user:***@a:1,b:2/app"],
  [
    "redis+sentinel://u:secret@a:1,b/n?sentinelPassword=secret",
    "redis+sentinel://u:***@a:1,b/n?sentinelPassword=***",
  ],
  ["consul://a:1,b:2/p?token=secret", "consul://a:1,b:2/p?token=***"],
  ["kubernetes:jobs?context=x", "kubernetes:jobs?context=x"],
])("shows %s without its secrets", (url, shown) => {
  expect(shownUrl(url)).toBe(shown);
});
