declare const ABSENT: unique symbol;
declare const ANY: unique symbol;

/**
 * The JSON form of a type. It ignores `readonly`, and an undefined member equals an absent one (zod
 * infers `x?: T | undefined` where a plain type has `x?: T`). `any` becomes a distinct type: otherwise
 * it would equal every type.
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
 * Whether two types have the same JSON form. A schema with a plain type in leasehold/internal/wire is compared to it:
 *
 *   true satisfies Same<z.infer<typeof Schema>, wire.Type>;
 */
export type Same<A, B> = [InJson<A>, InJson<B>] extends [InJson<B>, InJson<A>] ? true : false;
