#!/usr/bin/env node
import { describeFailure } from "./failures.js";
import { loadProgram } from "./program.js";

// It is no failure if the reader, such as head, closes the pipe early.
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
  // Ends now: open handles belong to the failed command.
  process.exit(exitCode);
}
