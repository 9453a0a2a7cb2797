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

describe("a parameter of a PostgreSQL URL", () => {
  it("is without effect where it is a query_timeout of zero, which pg would take for one", () => {
    const timesOf = (query: string) => {
      const { searchParams } = new URL(readAddress(`postgres://h/app?${query}`).urls[0]);
      return [searchParams.get("query_timeout"), searchParams.get("statement_timeout")];
    };
    expect(timesOf("query_timeout=0&statement_timeout=0")).toEqual([null, "0"]);
    expect(timesOf("query_timeout=00")).toEqual([null, null]);
    expect(timesOf("query_timeout=5000")).toEqual(["5000", null]);
  });

  it.each([
    // As pg 8 reads them, without its warning.
    ["sslmode=require", { sslmode: "verify-full" }],
    ["sslmode=prefer", { sslmode: "verify-full" }],
    ["sslmode=allow", { sslmode: "verify-full" }],
    ["sslmode=verify-ca&sslrootcert=/a", { sslmode: "verify-full", sslrootcert: "/a" }],
    ["sslmode=verify-full", { sslmode: "verify-full" }],
    ["sslmode=no-verify", { sslmode: "no-verify" }],
    ["sslmode=disable", { sslmode: "disable" }],
    ["ssl=false", { sslmode: "disable" }],
    ["ssl=0&sslmode=disable", { sslmode: "disable" }],
    ["ssl=true", { ssl: "true" }],
    ["ssl=true&sslmode=require", { ssl: "true", sslmode: "verify-full" }],
    ["ssl=no-verify", { ssl: "no-verify" }],
    ["sslmode=require&uselibpqcompat=true", { sslmode: "require", uselibpqcompat: "true" }],
    // pg would take it for verify-full.
    ["sslmode=allow&uselibpqcompat=true", { sslmode: "prefer", uselibpqcompat: "true" }],
    ["sslrootcert=system", { sslmode: "verify-full" }],
    ["sslmode=verify-full&sslrootcert=system", { sslmode: "verify-full" }],
    ["options=-c%20work_mem%3D1MB", { options: "-c work_mem=1MB" }],
    // As providers write them.
    [
      "sslmode=require&channel_binding=require",
      { channel_binding: "require", sslmode: "verify-full" },
    ],
  ])("?%s is read as it is meant", (query, expected) => {
    expect(parametersOf(query)).toEqual(expected);
  });

  it.each([
    ["ssl=off", '?ssl must be "true" or "false"'],
    ["ssl=require", "?ssl must be"],
    ["sslmode=verify-ful", '?sslmode must be "disable" or'],
    ["sslmode=required", '?sslmode must be "disable" or'],
    ["sslmode=", "?sslmode must be"],
    ["sslmode=require&sslmode=disable", "?sslmode is given twice"],
    ["schema=a&schema=b", "?schema is given twice"],
    ["requiressl=1", "?requiressl has no effect in the driver pg: write ?sslmode=verify-full"],
    ["ssl=true&sslmode=disable", "?ssl contradicts ?sslmode"],
    ["ssl=false&sslmode=require", "?ssl contradicts ?sslmode"],
    ["ssl=no-verify&sslmode=verify-full", "?ssl contradicts ?sslmode"],
    ["sslmode=disable&sslrootcert=/a", "?sslrootcert contradicts ?sslmode"],
    ["ssl=0&sslcert=/a&sslkey=/b", "?sslcert contradicts ?ssl"],
    ["sslmode=no-verify&sslrootcert=/a", "?sslrootcert contradicts ?sslmode"],
    ["ssl=no-verify&sslrootcert=/a", "?sslrootcert contradicts ?ssl"],
    ["sslmode=require&sslrootcert=system", "?sslrootcert=system contradicts ?sslmode"],
    ["sslmode=disable&sslnegotiation=direct", "?sslnegotiation contradicts ?sslmode"],
    ["sslnegotiation=tls", '?sslnegotiation must be "postgres" or "direct"'],
    ["sslcert=/a", "must name both ?sslcert= and ?sslkey="],
    ["sslcert=~/a&sslkey=/b", "?sslcert must not begin with ~"],
    ["sslmode=verify-ca&uselibpqcompat=true", "?sslmode=verify-ca needs ?sslrootcert="],
    ["sslcrl=/a", "?sslcrl has no effect in the driver pg: remove it"],
    ["service=x", "?service has no effect in the driver pg: write host, port"],
    ["dbname=x", "?dbname has no effect in the driver pg: write the database into the path"],
    ["hostaddr=::1", "?hostaddr has no effect"],
    ["replication=database", "?replication is not supported"],
    ["host=b", "?host is named before the path too"],
    ["statement_timeout=5s", "?statement_timeout must be a whole number"],
    ["target_session_attrs=standby", '?target_session_attrs must be "read-write"'],
    ["client_encoding=LATIN1", '?client_encoding must be "UTF8"'],
    ["watch=push", '?watch must be "poll"'],
    ["port=x", "?port must be a port in digits"],
    ["port=1,2", "?port must name one port, or one for each host"],
  ])("?%s is refused", (query, remedy) => {
    const { code, message } = refusal(`postgres://h/app?${query}`);
    expect(code).toBe("INVALID_OPTION");
    expect(message).toContain(remedy);
  });

  it.each([
    ["postgres://u@h/app?user=v", "?user is named before the path too"],
    ["postgres://u:secret@h/app?password=x", "?password is named before the path too"],
    ["postgres://h:1/app?port=2", "?port is named before the path too"],
    ["postgres:///app?host=~/pg", "?host must be a name, an address, or the folder of a socket"],
    ["postgres:///app?host=a,b&port=1,2,3", "?port must name one port, or one for each host"],
  ])("of %s is refused", (url, remedy) => {
    const { code, message } = refusal(url);
    expect(code).toBe("INVALID_OPTION");
    expect(message).toContain(remedy);
    expect(message).not.toContain("secret");
  });
});
