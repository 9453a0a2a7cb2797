import { readFileSync } from "node:fs";
import { isAbsolute } from "node:path";
import { CommanderError } from "commander";
import {
  InvalidOptionError,
  LeaseUnavailableError,
  StoreMisconfiguredError,
  StoreUnavailableError,
} from "leasehold";
import { expect, it } from "vitest";
import { describeFailure, Exit, UsageError } from "./failures.js";

const QUIET = { verbose: false, json: false };

it("prints the code, the message and the page with the remedy", () => {
  const { exitCode, text } = describeFailure(new StoreMisconfiguredError("no driver"), QUIET);
  expect(exitCode).toBe(78);
  const [first, second = ""] = text.split("\n");
  expect(first).toBe("leasehold: STORE_MISCONFIGURED: no driver");
  const [, file = "", heading] = /^ {2}what to do: (.*)#(.*)$/.exec(second) ?? [];
  expect(heading).toBe("store_misconfigured");
  expect(isAbsolute(file)).toBe(true);
  expect(readFileSync(file, "utf8")).toContain("## STORE_MISCONFIGURED");
});

it.each([
  [new InvalidOptionError("ttlMs", "is odd"), 64, "leasehold: INVALID_OPTION: --ttl is odd"],
  [
    new InvalidOptionError("ttlMs", "must be from 1000 to 3600000, not 1"),
    64,
    "leasehold: INVALID_OPTION: --ttl must be from 1000ms to 3600000ms, not 1ms",
  ],
  [
    new InvalidOptionError("cron", "or everyMs must be given, and not both"),
    64,
    "leasehold: INVALID_OPTION: --cron or --every must be given, and not both",
  ],
  [
    new InvalidOptionError("cron", '"H * * * *" is random: set jitterMs, everyMs or timeZone'),
    64,
    'leasehold: INVALID_OPTION: --cron "H * * * *" is random: set --jitter, --every or --time-zone',
  ],
  [
    new InvalidOptionError("source", "must begin with one of memory:"),
    64,
    "leasehold: INVALID_OPTION: --store must begin with one of memory:",
  ],
  [
    new LeaseUnavailableError("ttlMs", 1_000, "a"),
    75,
    'leasehold: LEASE_UNAVAILABLE: "ttlMs" is held by a; gave up after --wait 1000ms: retry later, or raise --wait',
  ],
  [new UsageError("no such file"), 64, "leasehold: no such file"],
  [new Error("other"), 1, "leasehold: other"],
  ["thrown text", 1, "leasehold: thrown text"],
  [new Exit(7), 7, ""],
  [new CommanderError(1, "commander.unknownOption", "said already"), 64, ""],
  [new CommanderError(0, "commander.help", "said already"), 0, ""],
])("%#: exits with the right code", (error, exitCode, text) => {
  const failure = describeFailure(error, QUIET);
  expect(failure.exitCode).toBe(exitCode);
  expect(failure.text.split("\n")[0]).toBe(text);
});

it("prints stacks and causes only with --verbose", () => {
  const cause = new Error("connection refused");
  const error = new StoreUnavailableError("no answer", { outcome: "none", cause });
  expect(describeFailure(error, QUIET).text).not.toContain("connection refused");
  const { text } = describeFailure(error, { verbose: true, json: false });
  expect(text).toContain("Error: connection refused\n    at ");
});

it("prints JSON if the command prints JSON results", () => {
  const { text } = describeFailure(new UsageError("no such file"), { verbose: true, json: true });
  expect(JSON.parse(text)).toEqual({ error: { code: null, message: "no such file", docs: null } });
});
