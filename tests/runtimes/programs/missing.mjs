// In a project without drivers: each engine says which package it lacks.
import { connect } from "leasehold";

const PACKAGES = {
  "postgres://localhost/app": "pg",
  "redis://localhost": "ioredis",
  "pglite:": "@electric-sql/pglite",
  "zookeeper://localhost": "node-zookeeper-client",
};

async function main() {
  for (const [source, name] of Object.entries(PACKAGES)) {
    const error = await connect(source).then(
      () => new Error("it connects"),
      (reason) => reason,
    );
    const expected = `the package ${name} is missing: npm install ${name}`;
    if (!error.message.endsWith(expected)) throw new Error(`${source}: ${error.message}`);
  }
}

void main();
