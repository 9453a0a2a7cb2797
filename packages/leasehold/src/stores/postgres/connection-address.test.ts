import { describe, expect, it } from "vitest";
import { readAddress } from "./connection-address.js";

const refusal = (url: string) => {
  try {
    readAddress(url);
  } catch (error) {
    return error as { code: string; message: string };
  }
  throw new Error("taken");
};
const parametersOf = (query: string) =>
  Object.fromEntries(new URL(readAddress(`postgres://h/app?${query}`).urls[0]).searchParams);

describe("the URL of PostgreSQL", () => {
  it.each([
    ["postgres://u:p%40@a:5433/app", ["postgres://u:p%40@a:5433/app"], { host: "a", port: 5433 }],
    ["POSTGRESQL://[::1]/app", ["postgresql://[::1]/app"], { host: "::1", port: 5432 }],
    [
      "postgres://u@a,b:2/app?schema=x&watch=poll",
      ["postgres://u@a/app", "postgres://u@b:2/app"],
      { host: "a", port: 5432 },
    ],
    ["postgres://u@/app?host=a", ["postgres://u@a/app"], { host: "a", port: 5432 }],
    ["postgres:///app?host=::1&port=7", ["postgres://[::1]:7/app"], { host: "::1", port: 7 }],
    [
      "postgres:///app?host=a,/run/pg&port=1,2",
      ["postgres://a:1/app", "postgres://%2Frun%2Fpg:2/app"],
      { host: "a", port: 1 },
    ],
    [
      "postgres://a,b/app?port=7",
      ["postgres://a:7/app", "postgres://b:7/app"],
      { host: "a", port: 7 },
    ],
    ["postgresql://u@/app?host=/run/pg", ["postgresql://u@%2Frun%2Fpg/app"], null],
    ["postgresql:///app?host=/cloudsql/p:r:i", ["postgresql://%2Fcloudsql%2Fp%3Ar%3Ai/app"], null],
    ["postgres://u@%2Frun%2Fpg/app", ["postgres://u@%2Frun%2Fpg/app"], null],
  ])("%s leads to its servers", (url, urls, first) => {
    expect(readAddress(url)).toMatchObject({ urls, first });
  });

  it("has what Leasehold reads of it, and a name without the password", () => {
    const { schema, isPolled, name } = readAddress(
      "postgres://u:secret@/app?host=/d&schema=s&watch=poll",
    );
    expect({ schema, isPolled, name }).toEqual({
      schema: "s",
      isPolled: true,
      name: "PostgreSQL at %2Fd/app",
    });
  });

  it.each([
    ["postgres:host/app", "its form is wrong"],
    ["postgres:/host/app", "its form is wrong"],
    ["postgres:///app", "a host is missing"],
    ["postgres://u:secret@/app", "a host or a port is wrong"],
    // A password with a slash, of which the user would be taken for the host.
    ["postgres://u:/secret@a:5432/app", "its form is wrong"],
    ["postgres://u:9/secret@a/app", "its form is wrong"],
    ["postgres://:5432/app", "a host or a port is wrong"],
    ["postgres://a,,b/app", "a host is missing"],
    ["postgres://a,:5433/app", "a host or a port is wrong"],
    ["postgres://u:secret@host:port/app", "a host or a port is wrong"],
    ["postgres://u:secret@host:0/app", "a host or a port is wrong"],
    ["postgres://u:secret@host:99999/app", "a host or a port is wrong"],
    ["postgres://u:sec#ret@host/app", "its form is wrong"],
    ["postgres://u:secret%zz@host/app", "a % begins no escape: write it as %25"],
    ["postgres://u:secret%ff@host/app", "a % begins no escape: write it as %25"],
    ["postgres://u:secret@host/app#x", "its form is wrong"],
    ["postgres://u:secret@host/app?port=0", "a host or a port is wrong"],
    ["postgres://u:secret@host/app?port=65536", "a host or a port is wrong"],
  ])("is refused with its fault and the right form, without its password: %s", (url, problem) => {
    const { code, message } = refusal(url);
    expect(message).not.toMatch(/secret|ret@/);
    expect(code).toBe("STORE_MISCONFIGURED");
    expect(message).toContain(`the PostgreSQL URL is invalid: ${problem}; write postgres://`);
  });

  it("is refused without the password that a question mark cuts", () => {
    const { code, message } = refusal("postgres://u:sec?ret@host/app");
    expect(message).not.toMatch(/ret@/);
    expect(code).toBe("INVALID_OPTION");
  });
});
