declare const ABSENT: unique symbol;
declare const ANY: unique symbol;

/**
 * What is left of a type as JSON: without `readonly`, and with an undefined member the same as an
 * absent one (zod infers `x?: T | undefined` where a plain type says `x?: T`). `any` becomes a type
 * of its own: otherwise it would equal everything.
 */
type InJson<T> = 0 extends 1 & T
  ? typeof ANY
  : T extends readonly (infer Item)[]
    ? readonly InJson<Item>[]
    : T extends object
      ? {
          readonly [Name in keyof T]-?: Record<never, never> extends Pick<T, Name>
            ? InJson<Exclude<T[Name], undefined>> | typeof ABSENT
            : InJson<T[Name]>;
        }
      : T;

/**
 * Whether two types are the same JSON. Each schema that has a plain type in leasehold/internal/wire is held to it:
 *
 *   true satisfies Same<z.infer<typeof Schema>, wire.Type>;
 */
export type Same<A, B> = [InJson<A>, InJson<B>] extends [InJson<B>, InJson<A>] ? true : false;
