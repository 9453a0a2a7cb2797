#!/usr/bin/env node
import { describeFailure } from "./failures.js";
import { loadProgram } from "./program.js";

// A reader that has seen enough, such as head, is no failure.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(0);
  throw error;
});
const { program, settings } = await loadProgram(process.argv[2]);
try {
  await program.parseAsync(process.argv);
} catch (error) {
  const { exitCode, text } = describeFailure(error, settings());
  if (text) process.stderr.write(`${text}\n`);
  // What is still open belongs to a command that has failed.
  process.exit(exitCode);
}
