#!/usr/bin/env node
// The command line is part of leasehold-server. Where both packages are installed, npm may link this file
// under the name that they share: it then runs that command.
try {
  await import("leasehold-server/cli");
} catch (error) {
  if (error.code !== "ERR_MODULE_NOT_FOUND" || !String(error).includes("'leasehold-server'")) {
    throw error;
  }
  process.stderr.write(
    "leasehold: the command line is a package of its own, leasehold-server\n" +
      "  what to do: npm install leasehold-server, or run npx leasehold-server\n",
  );
  process.exitCode = 1;
}
