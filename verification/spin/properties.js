// What the protocol model is checked for, in the words of docs/guarantees.md. The model has each property under its
// name; the last one is an LTL formula.

/** @typedef {{ name: string, words: string, isLiveness?: boolean }} Property */

/** @type {readonly Property[]} */
export const PROPERTIES = [
  {
    name: "TRUST_ENDS_FIRST",
    words: "A holder's trust in its lease ends before the store may grant the resource anew.",
  },
  {
    name: "TOKENS_GROW",
    words: "A new grant has a larger token than every earlier grant of its resource.",
  },
  {
    name: "LATE_WRITE_REFUSED",
    words: "A guard refuses the write of a late holder once a later one has written.",
  },
  {
    name: "SAME_GRANT",
    words:
      "A repeated acquire gets the same grant, with the same token, as long as that grant lasts.",
  },
  {
    name: "ENDED_FOR_GOOD",
    words: "A grant that was released or revoked, or that has expired, is not renewed.",
  },
  {
    name: "IN_ORDER",
    words:
      "A free resource is granted to a contender only after the time that is reserved for the waiters ahead of it.",
  },
  {
    name: "ONLY_WRITES_CONFLICT",
    words: "A waiter that joins or leaves never keeps the holder from renewing.",
  },
  {
    name: "JOINS_WHILE_HELD",
    words: "A request that joins is refused only if the lease is still held as it was found.",
  },
  {
    name: "GRANTED_AT_LAST",
    words:
      "A resource that live clients ask for does not stay free, and a dead client does not keep it.",
    isLiveness: true,
  },
];
