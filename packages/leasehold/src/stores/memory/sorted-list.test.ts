import { expect, it } from "vitest";
import { seededRandom } from "../../testing/index.js";
import { SortedList } from "./sorted-list.js";

const byNumber = (a: number, b: number) => a - b;

it.each(["ascending", "descending", "mixed"])("keeps items added in %s order sorted", (order) => {
  const random = seededRandom(7);
  const list = new SortedList<number>(byNumber);
  const numbers = Array.from({ length: 3_000 }, (_, index) => 2 * index);
  const added = [...numbers];
  if (order === "descending") added.reverse();
  if (order === "mixed") added.sort(() => random.float() - 0.5);
  for (const number of added) list.add(number);
  expect([...list.from()]).toEqual(numbers);
  expect([...list.backFrom()]).toEqual([...numbers].reverse());
  for (const number of [0, 2, 1_023, 1_024, 1_025, 3_001, 5_998]) {
    expect([...list.from(number)]).toEqual(numbers.filter((each) => each >= number));
    expect([...list.backFrom(number)]).toEqual(numbers.filter((each) => each < number).reverse());
    expect(list.before(number)).toBe(numbers.filter((each) => each < number).length);
  }
  expect([...list.from(5_999)]).toEqual([]);
  expect([...list.backFrom(-1)]).toEqual([]);
});

it("deletes what is in it, and nothing else", () => {
  const list = new SortedList<number>(byNumber);
  for (let number = 0; number < 2_000; number += 1) list.add(number);
  for (let number = 0; number < 2_000; number += 2) list.delete(number);
  list.delete(0);
  list.delete(2_001);
  const odd = Array.from({ length: 1_000 }, (_, index) => 2 * index + 1);
  expect([...list.from()]).toEqual(odd);
  expect([list.length, list.first, list.before(1_001)]).toEqual([1_000, 1, 500]);
  for (const number of odd) list.delete(number);
  expect([list.length, list.first, [...list.from()]]).toEqual([0, undefined, []]);
  list.add(5);
  list.clear();
  expect([list.length, [...list.backFrom()]]).toEqual([0, []]);
});
