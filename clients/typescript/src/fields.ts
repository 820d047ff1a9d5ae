/** Finite fields, and the linear forms over them that hashes are made of. */

/** GF(q): the integers mod a prime, or polynomials over GF(2), of which bit i is that of x^i. */
export class Field {
  constructor(
    readonly order: number,
    readonly polynomial: number | null,
  ) {}

  private get even(): boolean {
    return this.polynomial !== null;
  }

  add(left: number, right: number): number {
    return this.even ? left ^ right : (left + right) % this.order;
  }

  negative(element: number): number {
    return this.even || element === 0 ? element : this.order - element;
  }

  multiply(left: number, right: number): number {
    if (this.polynomial === null) return (left * right) % this.order; // below 2^28: q (q + 1) is
    let product = 0;
    for (let shifted = left, rest = right; rest; rest >>= 1) {
      if (rest & 1) product ^= shifted;
      shifted <<= 1;
      if (shifted >= this.order) shifted ^= this.polynomial;
    }
    return product;
  }
}

/** The linear forms on vectors of some digits, up to scale. */
export class Forms {
  readonly vectors: number;
  readonly points: number;

  constructor(
    readonly field: Field,
    readonly digits: number,
  ) {
    this.vectors = field.order ** digits;
    this.points = (this.vectors - 1) / (field.order - 1);
  }

  /** The digits of a form, the lowest first; the number after the last is the zero form. */
  private form(point: number): number[] {
    const { order } = this.field;
    const digits = new Array<number>(this.digits).fill(0);
    let [rest, points] = [point, this.points];
    if (rest >= points) return digits;
    for (let place = this.digits - 1; ; place--) {
      if (rest === points - 1) {
        digits[place] = 1; // the new digit alone
        return digits;
      }
      digits[place] = this.field.negative(rest % order);
      rest = Math.floor(rest / order);
      points = (points - 1) / order;
    }
  }

  /** The value of a form at a vector, an integer in base q. */
  evaluate(point: number, vector: number): number {
    let [total, rest] = [0, vector];
    for (const digit of this.form(point)) {
      total = this.field.add(total, this.field.multiply(digit, rest % this.field.order));
      rest = Math.floor(rest / this.field.order);
    }
    return total;
  }
}
