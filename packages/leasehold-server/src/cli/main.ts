#!/usr/bin/env node
import { describeFailure } from "./failures.js";
import { onOutputError, written } from "./output.js";
import { loadProgram } from "./program.js";
import { say } from "./terminal.js";

onOutputError(fail);
const { program, settings } = await loadProgram(process.argv.slice(2));
try {
  await program.parseAsync(process.argv);
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
