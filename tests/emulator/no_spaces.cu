// Code without a space that is not needed.
#include<cstdio>
#define SUM(s,x,n)for(int i=0;i<n;i++)s+=x[i];
template<class T>__global__ void k(T*o,const T*x,int n){extern __shared__ T s[];__shared__ T t[32];
T a=0;for(int i=threadIdx.x;i<n;i+=blockDim.x)a+=x[i];s[threadIdx.x]=a;t[threadIdx.x%32]=0;__syncthreads();
int w=3;while(w)w--;do++w;while(w<5);do w--;while(w);for(int i=0;i<3;i++)for(int j=0;j<3;j++)w++;
T b=0;SUM(b,s,blockDim.x)if(!threadIdx.x)*o=b+w-9+t[0];}
int main(){float*x,*o;cudaMallocManaged(&x,400);cudaMallocManaged(&o,4);for(int i=0;i<100;i++)x[i]=1;
if(x)k<<<1,32,128>>>(o,x,100);else k<<<1,1>>>(o,x,1);cudaError_t e=cudaDeviceSynchronize();puts(!e&&*o==100?"ok":"wrong");}
