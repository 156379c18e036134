/* block /* nested */ comment */ // line
diagnostic(off, derivative_uniformity);
@group(0) @binding(0) var<storage,read_write>out:array<array<vec4<u32>,2>>;;
const Δέλτα = 1; const float = 2u; const gl_Position = 3; const int = 4; const a_b__c = 1; const main_ = 0x0;
struct sampler2D { vec: i32, x: vec2<f32> }; const if_ = 1.e1 + .5 + 1e-2f + 0X1.8P1;
fn a(b: i32, c: i32, d: i32) -> bool { return b<c && d>(c) ; }
fn f(b: u32, c: u32) -> bool { let x = b < c; return x == (b>>1 >= c>>2u); }
@compute @workgroup_size(1) fn main() {
	var discard_ = array<array<u32, 2>, 3>(); let output = Δέλτα; var buffer: sampler2D; var shared_ = 1u;
	out[0][1] = vec4<u32>(u32(a(1, 2, 3)), u32(f(1, 2)), discard_[1][0], float); // comment at the end
	shared_ >>= 1; shared_ <<= 2u; if shared_ >= 3 { buffer.vec -= -1; } let vec3 = 1 - -1;
	out[0][0].x = shared_ + u32(buffer.vec) + u32(output) + u32(vec3);
}
