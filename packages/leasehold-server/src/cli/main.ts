#!/usr/bin/env node
import { describeFailure } from "./failures.js";
import { endWithoutReader, onOutputError, written } from "./output.js";
import { loadProgram } from "./program.js";
import { say } from "./terminal.js";

onOutputError(fail);
// What follows "--" are words of the user's own command.
const end = process.argv.indexOf("--");
const own = end === -1 ? process.argv : process.argv.slice(0, end);
const { program, settings } = await loadProgram(process.argv.slice(2), own.includes("--json"));
try {
  await program.parseAsync(process.argv);
  await endWithoutReader();
} catch (error) {
  fail(
    await written().then(
      () => error,
      (failure: unknown) => failure,
    ),
  );
}

/** Ends now: open handles belong to the failed command. */
function fail(error: unknown): never {
  const { exitCode, text } = describeFailure(error, settings());
  if (text) say(text);
  process.exit(exitCode);
}
