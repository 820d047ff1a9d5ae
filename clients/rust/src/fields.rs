//! Finite fields, and the linear forms over them that hashes are made of.

use alloc::vec::Vec;

use crate::{Error, Result};

/// GF(q): the integers mod a prime, or polynomials over GF(2), of which bit i is that of x^i.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub order: u64,
    polynomial: Option<u64>,
}

impl Field {
    pub fn new(order: u64, polynomial: Option<u64>) -> Result<Self> {
        let fits = polynomial.is_none_or(|p| order.is_power_of_two() && p >> order.ilog2() == 1);
        if !(2..1 << 31).contains(&order) || !fits {
            return Err(Error::new("the plan has no field of that order: make plan.json anew"));
        }
        Ok(Self { order, polynomial })
    }

    pub fn add(&self, left: u64, right: u64) -> u64 {
        if self.polynomial.is_some() {
            return left ^ right;
        }
        let sum = left + right;
        if sum < self.order { sum } else { sum - self.order }
    }

    fn negative(&self, element: u64) -> u64 {
        if self.polynomial.is_some() || element == 0 { element } else { self.order - element }
    }

    fn multiply(&self, left: u64, right: u64) -> u64 {
        let Some(polynomial) = self.polynomial else { return left * right % self.order };
        let (mut product, mut shifted, mut rest) = (0, left, right);
        while rest != 0 {
            product ^= shifted * (rest & 1);
            shifted <<= 1;
            shifted ^= polynomial * u64::from(shifted >= self.order);
            rest >>= 1;
        }
        product
    }
}

/// The linear forms on vectors of some digits, up to scale.
#[derive(Clone, Debug)]
pub(crate) struct Forms {
    field: Field,
    /// Numbers of vectors and of forms with 0, 1, ... digits; the last is `digits`.
    vectors: Vec<u64>,
    points: Vec<u64>,
}

impl Forms {
    pub fn new(field: Field, digits: u32) -> Result<Self> {
        let vectors: Option<Vec<u64>> = (0..=digits).map(|m| field.order.checked_pow(m)).collect();
        let vectors =
            vectors.filter(|sizes| sizes[digits as usize] < 1 << 53).ok_or_else(|| {
                Error::new("the plan's hash has too many digits: make plan.json anew")
            })?;
        let points = vectors.iter().map(|size| (size - 1) / (field.order - 1)).collect();
        Ok(Self { field, vectors, points })
    }

    pub fn vectors(&self) -> u64 {
        self.vectors[self.vectors.len() - 1]
    }

    pub fn points(&self) -> u64 {
        self.points[self.points.len() - 1]
    }

    /// The value of a form at a vector, an integer in base q; the form after the last is zero.
    pub fn evaluate(&self, form: u64, vector: u64) -> u64 {
        let (mut rest, mut total) = (form, 0);
        let (mut digits, mut lower) = (self.points.len() - 1, vector);
        if rest >= self.points[digits] {
            return 0;
        }
        loop {
            digits -= 1;
            let (digit, below) = (lower / self.vectors[digits], lower % self.vectors[digits]);
            if rest == self.points[digits + 1] - 1 {
                return self.field.add(total, digit); // the new digit alone
            }
            let factor = self.field.negative(rest % self.field.order);
            total = self.field.add(total, self.field.multiply(factor, digit));
            (rest, lower) = (rest / self.field.order, below);
        }
    }
}
