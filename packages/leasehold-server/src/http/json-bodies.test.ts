/** Each text of users has the same verdict in the body of each route that takes their values. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Asked, openApp } from "../../../../tests/support/server/app.js";
import {
  ACCEPTED_JSON,
  BROKEN_JSON,
  CHANGED_JSON,
  REPEATED_JSON,
} from "../../../../tests/support/server/json-texts.js";

let app: Asked;
beforeAll(async () => {
  app = await openApp();
});
afterAll(() => app.close());

const GRANT = '"leaseId":"x","token":1';

/** Method, path, and the text before and after the value of the user. */
const ROADS = [
  ["POST", "/api/tasks", '{"task_data":', "}"],
  ["POST", "/api/tasks", '[{"task_data":', "}]"],
  ["PUT", "/v1/schedules/s", '{"everyMs":60000,"task":{"kind":"k","data":', "}}"],
  ["POST", "/api/tasks/complete", `[{${GRANT},"output":`, "}]"],
  ["POST", "/v1/once/succeed", `{${GRANT},"value":`, "}"],
  ["POST", "/v1/leases/acquire", '[{"resource":"r","holder":"h","metadata":', "}]"],
] as const;

test.each(ROADS)("%s %s with %s...%s refuses the same texts", async (...road) => {
  const [method, path, before, after] = road;
  for (const [text, at, problem] of CHANGED_JSON) {
    const { status, body } = await app.ask(method, path, before + text + after);
    const errors = [{ path: expect.stringMatching(at), problem }];
    expect([text, status, body]).toMatchObject([text, 422, { code: "INVALID_REQUEST", errors }]);
  }
  for (const [text, at] of REPEATED_JSON) {
    const { status, body } = await app.ask(method, path, before + text + after);
    const problem = expect.stringMatching(/^occurs twice in its object, again at line 1, column /);
    const errors = [{ path: expect.stringMatching(at), problem }];
    expect([text, status, body]).toMatchObject([text, 422, { code: "INVALID_REQUEST", errors }]);
  }
  for (const [text] of BROKEN_JSON) {
    const { status, body } = await app.ask(method, path, before + text + after);
    expect([text, status, body.code]).toEqual([text, 400, "MALFORMED_JSON"]);
    expect(body.detail).toMatch(/^the body is not JSON: line \d, column \d+: expected /);
  }
});

test.each(BROKEN_JSON)("the body %j alone is refused with the reason", async (text, why) => {
  const { status, body } = await app.ask("POST", "/api/tasks", text);
  expect([status, body.code]).toEqual([400, "MALFORMED_JSON"]);
  expect(body.detail).toContain(`the body is not JSON: `);
  expect(body.detail).toContain(why);
});

test("names the path in the body, with the index of the item", async () => {
  const body = '[{"task_data":1},{"task_data":{"id":1970670598291982290}}]';
  const answer = await app.ask("POST", "/api/tasks", body);
  expect(answer.body).toMatchObject({
    code: "INVALID_REQUEST",
    errors: [{ path: "1.task_data.id", problem: expect.stringContaining("send another number") }],
  });
});

test.each(ACCEPTED_JSON)("task data may be %s", async (text) => {
  const { status, body } = await app.ask("POST", "/api/tasks", `{"task_data":${text}}`);
  expect(status).toBe(201);
  const stored = (await app.ask("GET", `/api/tasks/${body.id}`)).body.task_data;
  expect(JSON.stringify(stored)).toBe(JSON.stringify(JSON.parse(text)));
});

test.each([
  ["POST", "/api/tasks", '{"priority":9007199254740993}', "priority"],
  ["POST", "/api/tasks", '{"max_attempts":1e400}', "max_attempts"],
])("%s %s %s names a remedy that the field allows", async (method, path, text, field) => {
  const { body } = await app.ask(method, path, text);
  const problem = expect.stringMatching(/: send another number, or a string where strings are/);
  expect(body.errors).toEqual([{ path: field, problem }]);
});

test("a token beyond 2^53 is refused, not rounded to another grant's", async () => {
  const body = '[{"resource":"r","leaseId":"x","token":9007199254740993,"ttlMs":1000}]';
  for (const operation of ["renew", "release"]) {
    const answer = await app.ask("POST", `/v1/leases/${operation}`, body);
    expect(answer.body.errors[0].path).toBe("0.token");
  }
});
