;; The only arithmetic of the page that JavaScript would be too slow at: many dot products at once.
;;
;; dots(a, a_step, rows, b, b_step, columns, inner, c, c_step) sets, for every row i of a and
;; every row j of b,
;;
;;     c[i][j] = a[i][0] b[j][0] + ... + a[i][inner - 1] b[j][inner - 1]
;;
;; All are float32 in the memory: a, b and c are addresses of first rows, a step is the number of
;; bytes from one row to the next. A matrix times a weight matrix as it is stored (a row for each
;; output) is this, and so are queries times keys, and attention times values.
;;
;; Four numbers are multiplied at a time (128-bit SIMD), and two rows meet four columns at a time,
;; because then each number that is read is used several times. So rows must be even, columns and
;; inner multiples of four; model.js sees to that.
;;
;; book/browser.py has it assembled by wabt when the site is built: 0.8 kB of WebAssembly.
(module
  (memory (export "memory") 1)

  ;; The sums of the four numbers in a, in b, in c and in d, side by side.
  (func $sums (param $a v128) (param $b v128) (param $c v128) (param $d v128) (result v128)
    (local $ab v128) (local $cd v128)
    (local.set $ab (f32x4.add
      (i8x16.shuffle 0 1 2 3 16 17 18 19 4 5 6 7 20 21 22 23 (local.get $a) (local.get $b))
      (i8x16.shuffle 8 9 10 11 24 25 26 27 12 13 14 15 28 29 30 31 (local.get $a) (local.get $b))))
    (local.set $cd (f32x4.add
      (i8x16.shuffle 0 1 2 3 16 17 18 19 4 5 6 7 20 21 22 23 (local.get $c) (local.get $d))
      (i8x16.shuffle 8 9 10 11 24 25 26 27 12 13 14 15 28 29 30 31 (local.get $c) (local.get $d))))
    (f32x4.add
      (i8x16.shuffle 0 1 2 3 4 5 6 7 16 17 18 19 20 21 22 23 (local.get $ab) (local.get $cd))
      (i8x16.shuffle 8 9 10 11 12 13 14 15 24 25 26 27 28 29 30 31 (local.get $ab) (local.get $cd))))

  (func (export "dots")
    (param $a i32) (param $a_step i32) (param $rows i32)
    (param $b i32) (param $b_step i32) (param $columns i32)
    (param $inner i32) (param $c i32) (param $c_step i32)
    (local $i i32) (local $j i32) (local $bj i32) (local $cj i32) (local $end i32)
    ;; Where two rows of a and four of b are being read.
    (local $a0 i32) (local $a1 i32) (local $b0 i32) (local $b1 i32) (local $b2 i32) (local $b3 i32)
    (local $x0 v128) (local $x1 v128) (local $y v128)
    ;; The eight sums, each of four partial sums.
    (local $s00 v128) (local $s01 v128) (local $s02 v128) (local $s03 v128)
    (local $s10 v128) (local $s11 v128) (local $s12 v128) (local $s13 v128)
    (loop $each_row
      (local.set $j (i32.const 0))
      (local.set $bj (local.get $b))
      (local.set $cj (local.get $c))
      (loop $each_column
        (local.set $a0 (local.get $a))
        (local.set $a1 (i32.add (local.get $a0) (local.get $a_step)))
        (local.set $b0 (local.get $bj))
        (local.set $b1 (i32.add (local.get $b0) (local.get $b_step)))
        (local.set $b2 (i32.add (local.get $b1) (local.get $b_step)))
        (local.set $b3 (i32.add (local.get $b2) (local.get $b_step)))
        (local.set $end (i32.add (local.get $a0) (i32.shl (local.get $inner) (i32.const 2))))
        (local.set $s00 (v128.const i32x4 0 0 0 0))
        (local.set $s01 (v128.const i32x4 0 0 0 0))
        (local.set $s02 (v128.const i32x4 0 0 0 0))
        (local.set $s03 (v128.const i32x4 0 0 0 0))
        (local.set $s10 (v128.const i32x4 0 0 0 0))
        (local.set $s11 (v128.const i32x4 0 0 0 0))
        (local.set $s12 (v128.const i32x4 0 0 0 0))
        (local.set $s13 (v128.const i32x4 0 0 0 0))
        (loop $each_four
          (local.set $x0 (v128.load (local.get $a0)))
          (local.set $x1 (v128.load (local.get $a1)))
          (local.set $y (v128.load (local.get $b0)))
          (local.set $s00 (f32x4.add (local.get $s00) (f32x4.mul (local.get $x0) (local.get $y))))
          (local.set $s10 (f32x4.add (local.get $s10) (f32x4.mul (local.get $x1) (local.get $y))))
          (local.set $y (v128.load (local.get $b1)))
          (local.set $s01 (f32x4.add (local.get $s01) (f32x4.mul (local.get $x0) (local.get $y))))
          (local.set $s11 (f32x4.add (local.get $s11) (f32x4.mul (local.get $x1) (local.get $y))))
          (local.set $y (v128.load (local.get $b2)))
          (local.set $s02 (f32x4.add (local.get $s02) (f32x4.mul (local.get $x0) (local.get $y))))
          (local.set $s12 (f32x4.add (local.get $s12) (f32x4.mul (local.get $x1) (local.get $y))))
          (local.set $y (v128.load (local.get $b3)))
          (local.set $s03 (f32x4.add (local.get $s03) (f32x4.mul (local.get $x0) (local.get $y))))
          (local.set $s13 (f32x4.add (local.get $s13) (f32x4.mul (local.get $x1) (local.get $y))))
          (local.set $a0 (i32.add (local.get $a0) (i32.const 16)))
          (local.set $a1 (i32.add (local.get $a1) (i32.const 16)))
          (local.set $b0 (i32.add (local.get $b0) (i32.const 16)))
          (local.set $b1 (i32.add (local.get $b1) (i32.const 16)))
          (local.set $b2 (i32.add (local.get $b2) (i32.const 16)))
          (local.set $b3 (i32.add (local.get $b3) (i32.const 16)))
          (br_if $each_four (i32.lt_u (local.get $a0) (local.get $end))))
        (v128.store (local.get $cj)
          (call $sums (local.get $s00) (local.get $s01) (local.get $s02) (local.get $s03)))
        (v128.store (i32.add (local.get $cj) (local.get $c_step))
          (call $sums (local.get $s10) (local.get $s11) (local.get $s12) (local.get $s13)))
        (local.set $bj (i32.add (local.get $bj) (i32.shl (local.get $b_step) (i32.const 2))))
        (local.set $cj (i32.add (local.get $cj) (i32.const 16)))
        (local.set $j (i32.add (local.get $j) (i32.const 4)))
        (br_if $each_column (i32.lt_u (local.get $j) (local.get $columns))))
      (local.set $a (i32.add (local.get $a) (i32.shl (local.get $a_step) (i32.const 1))))
      (local.set $c (i32.add (local.get $c) (i32.shl (local.get $c_step) (i32.const 1))))
      (local.set $i (i32.add (local.get $i) (i32.const 2)))
      (br_if $each_row (i32.lt_u (local.get $i) (local.get $rows))))))
